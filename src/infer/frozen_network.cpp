#include "infer/frozen_network.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "formats/arrays/safetensors.h"
#include "formats/json_text.h"
#include "infer/deployed_network.h"
#include "infer/freeze.h"
#include "infer/state_file.h"
#include "models/json/network_json.h"
#include "networks/imported_network.h"
#include "networks/language/model_file.h"
#include "networks/named_inputs.h"
#include "networks/network.h"
#include "ops/convolutions/convolution_bytes.h"
#include "ops/loss.h"
#include "plan/passes/network_format.h"
#include "plan/passes/sliced_loss.h"

namespace mantissa {

namespace {

ProgramOptions inference_options(const Format& format, int64_t batch, bool with_loss) {
  return {.kind = ProgramKind::kInference,
          .micro_batch_size = batch,
          .with_loss = with_loss,
          .exponents = ExponentMode::kFixed,
          .format = format};
}

}  // namespace

Result<Program> compile_inference(const Graph& frozen_graph, const Format& format, int64_t batch,
                                  bool with_loss, const PlanningContext& planning) {
  return compile(frozen_graph, inference_options(format, batch, with_loss), planning);
}

namespace {

constexpr const char* kKind = "mantissa frozen network 1";
constexpr const char* kRescaledKind = "mantissa frozen network 2";
constexpr const char* kTieFreeKind = "mantissa frozen network 3";
constexpr int64_t kLargestImage = 16384;

// Also read by programs that know only built-in networks.
std::string description_text(const FrozenDescription& d) {
  nlohmann::json description = {{"model", d.network.name},
                                {"format", to_string(d.format)},
                                {"height", d.options.height},
                                {"width", d.options.width},
                                {"channels", d.options.channels},
                                {"classes", d.options.classes},
                                {"width_multiplier", d.options.width_multiplier},
                                {"channel_means", d.options.channel_means},
                                {"class_names", d.class_names},
                                {"data", d.data},
                                {"loss", ops::loss_of(d.options.loss).name},
                                {"weights_sha256", d.weights_sha256}};
  if (d.table) description["table"] = to_json(*d.table);
  if (!d.tokenizer.empty()) description["tokenizer"] = d.tokenizer;
  if (!d.thresholds.empty()) description["thresholds"] = d.thresholds;
  if (d.ignored_label) description["ignored_label"] = *d.ignored_label;
  return description.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The entries that describe a built-in network, for files of before the network itself was in them.
Status take_model(const nlohmann::json& json, std::string& model, ModelOptions& options) {
  const Error damaged = invalid_input("its description is damaged");
  for (const char* key : {"height", "width", "channels", "classes"}) {
    if (!json.at(key).is_number_integer()) return damaged;
  }
  for (const auto& mean : json.at("channel_means")) {
    if (!mean.is_number_integer() || mean < 0 || mean > 255) return damaged;
  }
  json.at("model").get_to(model);
  json.at("height").get_to(options.height);
  json.at("width").get_to(options.width);
  json.at("channels").get_to(options.channels);
  json.at("classes").get_to(options.classes);
  json.at("width_multiplier").get_to(options.width_multiplier);
  json.at("channel_means").get_to(options.channel_means);
  // Files from before there was a choice lack it.
  MANTISSA_ASSIGN(options.loss,
                  ops::parse_loss(json.value("loss", ops::loss_of(options.loss).name)));
  const bool is_image = options.height >= 1 && options.height <= kLargestImage &&
                        options.width >= 1 && options.width <= kLargestImage &&
                        options.channels >= 1 && options.channels <= 4;
  return is_image ? Status{} : invalid_input("its description is not that of a network");
}

// Whether a table has the targets that a network's outputs are compared with.
bool fits_outputs(const TableSchema& table, const ModelOptions& options) {
  const auto fits = [](const TableSchema& target, const ModelOptions& output) {
    const bool is_number = ops::is_for_numbers(output.loss);
    return target.output == output.labels && target.is_regression() == is_number &&
           target_of(target).outputs() == output.classes;
  };
  return std::equal(table.outputs.begin(), table.outputs.end(), options.outputs.begin(),
                    options.outputs.end(), fits);
}

// Whether labels in an order are as many as the network's loss reads.
bool fits_sequences(const TableSchema& table, const Graph& network) {
  const Node* const loss = loss_of_sequences(network);
  return !table.has_labels_in_order ||
         (loss != nullptr && table.label_shape == network.values[loss->inputs[1]].shape);
}

// The description, and the network: from its own JSON, or a built-in one.
Result<FrozenDescription> parse_description(const std::string& text, const std::string* network) {
  const Error damaged = invalid_input("its description is damaged");
  FrozenDescription d;
  std::string model;
  try {
    const auto json = parse_json(text);
    // Files without the entry are of the time when nothing in them depended on it.
    const Result<Format> format = parse_format(json.value("format", "bfp8"));
    if (!format.ok()) return damaged;
    d.format = *format;
    json.at("class_names").get_to(d.class_names);
    json.at("data").get_to(d.data);
    json.at("weights_sha256").get_to(d.weights_sha256);
    if (json.contains("table")) {
      MANTISSA_ASSIGN(d.table, parse_table_schema(json.at("table").get<std::string>()));
    }
    d.tokenizer = json.value("tokenizer", "");
    d.thresholds = json.value("thresholds", std::vector<double>());
    if (json.contains("ignored_label")) d.ignored_label = json.at("ignored_label").get<int64_t>();
    MANTISSA_RETURN_IF_ERROR(vocabulary_of(d));
    if (network == nullptr) MANTISSA_RETURN_IF_ERROR(take_model(json, model, d.options));
  } catch (const nlohmann::json::exception&) {
    return damaged;
  }
  if (network == nullptr) {
    MANTISSA_ASSIGN(d.network, build_model(model, d.options));
  } else {
    auto parsed = parse_network(*network);
    if (!parsed.ok()) return invalid_input("its network, " + parsed.error().message);
    d.network = std::move(*parsed);
    const auto options = example_options(d.network);
    if (!options.ok()) return d;
    d.options = *options;
  }
  const bool has_thresholds = d.thresholds.size() == threshold_count(d.options) &&
                              std::all_of(d.thresholds.begin(), d.thresholds.end(),
                                          [](double threshold) { return std::isfinite(threshold); });
  if (!d.thresholds.empty() && !has_thresholds) return damaged;
  const bool is_regression = ops::is_for_numbers(d.options.loss);
  const bool has_inputs = !d.table || (d.table->has_named_inputs() || d.table->picture
                                           ? fits_inputs(*d.table, d.network)
                                           : d.table->features() == d.options.features);
  const bool has_sequences = d.options.loss == ops::LossKind::kCtc;
  const bool has_targets =
      !d.table ||
      (d.table->is_regression() == is_regression && d.table->has_labels_in_order == has_sequences &&
       fits_sequences(*d.table, d.network) && fits_outputs(*d.table, d.options));
  const bool has_table = has_inputs && has_targets;
  // Files of Python and C++ with labels in an order had no names once.
  const bool may_lack_names = is_regression || (has_sequences && !d.table && d.class_names.empty());
  if (has_table && std::ssize(d.class_names) == (may_lack_names ? 0 : d.options.classes)) return d;
  return invalid_input("its description is not that of its network");
}

// Whether multipliers are finite, and biases so small that sums fit.
bool is_in_range(const Parameter& parameter, const State& state, int tensor) {
  const auto count = static_cast<size_t>(parameter.shape.count());
  if (parameter.storage == Storage::kFloat) {
    const std::span numbers(state.data<float>(tensor), count);
    return std::all_of(numbers.begin(), numbers.end(), [](float n) { return std::isfinite(n); });
  }
  if (parameter.storage != Storage::kSum) return true;
  const std::span numbers(state.data<int32_t>(tensor), count);
  return std::all_of(numbers.begin(), numbers.end(),
                     [](int64_t n) { return std::abs(n) <= ops::kBiasLimit; });
}

Status check_rescaled(const Graph& graph, const State& state, const std::filesystem::path& path) {
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    if (is_in_range(graph.parameters[i], state, state.layout().parameters[i].mantissa)) continue;
    return invalid_input(path.string() + ": '" + graph.parameters[i].name +
                         "' has a number out of range");
  }
  return {};
}

const char* kind_of(FrozenForm form) {
  if (form == FrozenForm::kTieFree) return kTieFreeKind;
  return form == FrozenForm::kRescaled ? kRescaledKind : kKind;
}

// The form of a file's kind; nothing: it is no frozen network.
std::optional<FrozenForm> form_of(const std::string* kind) {
  for (const FrozenForm form :
       {FrozenForm::kScaleOffset, FrozenForm::kRescaled, FrozenForm::kTieFree}) {
    if (kind != nullptr && *kind == kind_of(form)) return form;
  }
  return std::nullopt;
}

std::map<std::string, std::string> metadata_of(const FrozenDescription& d) {
  return {{"kind", kind_of(d.form)},
          {"description", description_text(d)},
          {"network", to_json(d.network)}};
}

// Tensors of the weights of layers.
std::vector<int> weight_tensors(const Graph& graph, const StateLayout& layout) {
  std::vector<int> tensors;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    const bool is_weights = graph.parameters[i].storage == Storage::kWeights;
    if (is_weights) tensors.push_back(layout.parameters[i].mantissa);
  }
  return tensors;
}

}  // namespace

size_t threshold_count(const ModelOptions& options) {
  if (!options.outputs.empty()) {
    size_t count = 0;
    for (const ModelOptions& output : options.outputs) count += threshold_count(output);
    return count;
  }
  const bool are_labels = options.loss == ops::LossKind::kSigmoids && !options.one_logit;
  if (are_labels) return static_cast<size_t>(options.classes);
  const bool has_ranks = options.loss == ops::LossKind::kOrdinal;
  const bool has_one_class =
      !ops::is_for_numbers(options.loss) && !has_ranks && options.loss != ops::LossKind::kCtc;
  return options.classes == 2 && has_one_class ? 1 : 0;
}

Target target_of(const FrozenDescription& description) {
  if (description.table) return target_of(*description.table);
  Target target{.classes = static_cast<int>(description.class_names.size()),
                .names = description.class_names};
  if (ops::is_for_numbers(description.options.loss)) target.kind = TargetKind::kNumber;
  if (reads_tokens(description.network)) target.kind = TargetKind::kTokens;
  return target;
}

Result<Vocabulary> vocabulary_of(const FrozenDescription& description) {
  if (description.tokenizer.empty()) return Vocabulary(description.class_names);
  MANTISSA_ASSIGN(Vocabulary vocabulary, vocabulary_of_entry(description.tokenizer));
  if (vocabulary.names() != description.class_names) {
    return invalid_input("its tokenizer has other pieces than its network");
  }
  return vocabulary;
}

Status check_examples(const FrozenNetwork& network, const std::string& path) {
  const FrozenDescription& d = network.description;
  const auto options = example_options(d.network);
  if (!options.ok()) return invalid_input(path + ": " + options.error().message);
  if (d.table) return {};
  if (!options->outputs.empty()) {
    return invalid_input(path + ": the network has several outputs, and does not say of which " +
                         "targets; Model in C++ and Python reads it");
  }
  if (takes_named_arrays(d.network)) {
    return invalid_input(path + ": the network takes arrays by the names of its inputs, and does " +
                         "not say with which means and deviations");
  }
  if (options->features == 0) return {};
  return invalid_input(path + ": the network takes tables, and does not say of which columns");
}

Status save_frozen(const std::filesystem::path& path, const FrozenNetwork& network) {
  return write_state(path, metadata_of(network.description), network.state);
}

Result<std::string> frozen_bytes(const FrozenNetwork& network, bool with_weights) {
  const std::vector<int> left_out =
      with_weights ? std::vector<int>() : weight_tensors(network.graph, network.state.layout());
  return safetensors_bytes(metadata_of(network.description), state_views(network.state, left_out));
}

Result<FrozenNetwork> frozen_network(const std::filesystem::path& path, const SafetensorsFile& file,
                                     int64_t weights_elsewhere) {
  const auto entry = [&](const char* key) {
    const auto found = file.metadata.find(key);
    return found == file.metadata.end() ? nullptr : &found->second;
  };
  const std::string* text = entry("description");
  const auto form = form_of(entry("kind"));
  if (!form || text == nullptr) {
    MANTISSA_ASSIGN(const bool is_foreign, is_model_folder(path.parent_path()));
    if (is_foreign && entry("kind") == nullptr) return not_imported(path.parent_path());
    return invalid_input(path.string() + ": is not a frozen network of Mantissa");
  }
  auto d = parse_description(*text, entry("network"));
  if (!d.ok()) return invalid_input(path.string() + ": " + d.error().message);
  const Graph graph = in_format(d->network, d->format);
  d->form = *form;
  const bool has_form = *form == FrozenForm::kScaleOffset || *form == frozen_form(graph, d->format);
  if (!has_form || !check_form(graph, *form).ok()) {
    return invalid_input(path.string() + ": its description is not that of its network");
  }
  Graph frozen_graph = freeze_graph(graph, d->form);
  StateLayout layout = frozen_layout(frozen_graph, d->format);
  int64_t held = weights_elsewhere;
  for (const auto& tensor : file.tensors) held += static_cast<int64_t>(tensor.data.size());
  if (layout.bytes > held + 64 * static_cast<int64_t>(layout.tensors.size())) {
    return invalid_input(path.string() + ": holds less than its network needs");
  }
  const std::vector<int> left_out =
      weights_elsewhere > 0 ? weight_tensors(frozen_graph, layout) : std::vector<int>();
  MANTISSA_ASSIGN(State state, State::create(std::move(layout)));
  MANTISSA_RETURN_IF_ERROR(read_state(path, file, state, left_out));
  MANTISSA_RETURN_IF_ERROR(check_rescaled(frozen_graph, state, path));
  return FrozenNetwork{std::move(*d), std::move(frozen_graph), std::move(state)};
}

Result<FrozenNetwork> load_frozen(const std::filesystem::path& path) {
  if (is_onnx_file(path)) return load_deployed(path);
  MANTISSA_ASSIGN(const bool is_foreign, is_model_file(path));
  if (is_foreign) return not_imported(path);
  MANTISSA_ASSIGN(const SafetensorsFile file, read_safetensors(path));
  return frozen_network(path, file);
}

BatchLengths text_lengths(const FrozenDescription& description, int64_t most) {
  const int64_t sequence = description.options.sequence;
  const bool has_arrays = description.table && description.table->has_named_inputs();
  if (sequence == 0 || has_arrays) return {};
  if (description.format.is_float() || description.format.has_row_exponents()) return {};
  BatchLengths lengths = batch_lengths(sequence, most);
  return check_lengths(description.network, true, lengths).ok() ? lengths : BatchLengths{};
}

Result<EvaluationPrograms> compile_evaluation(const Graph& frozen_graph, const Format& format,
                                              int64_t batch_size, int64_t examples,
                                              const PlanningContext& planning, Reads reads,
                                              const BatchLengths& lengths) {
  const auto compile_for = [&](const Graph& graph, int64_t batch) {
    const ProgramOptions options = inference_options(format, batch, true);
    return compile(graph, reads == Reads::kLoss ? with_sliced_loss_alone(graph, options) : options,
                   planning);
  };
  EvaluationPrograms programs;
  programs.lengths = lengths;
  programs.batch_size = std::max<int64_t>(1, std::min(batch_size, examples));
  MANTISSA_ASSIGN(programs.full, compile_for(frozen_graph, programs.batch_size));
  const int64_t rest = examples % programs.batch_size;
  if (rest != 0) {
    MANTISSA_ASSIGN(programs.rest, compile_for(frozen_graph, rest));
  }
  for (size_t i = 0; i + 1 < lengths.size(); ++i) {
    LengthProgram shorter;
    MANTISSA_ASSIGN(shorter.graph, with_length(frozen_graph, lengths.back(), lengths[i]));
    MANTISSA_ASSIGN(shorter.program, compile_for(shorter.graph, programs.batch_size));
    programs.shorter.push_back(std::move(shorter));
  }
  return programs;
}

Programs inference_programs(FrozenNetwork& network, const EvaluationPrograms& programs,
                            const Machine& machine) {
  Programs result(network.graph, network.state, machine);
  for (const Program* program : {&programs.full, &programs.rest}) {
    if (!program->instructions.empty()) result.add(*program);
  }
  for (const LengthProgram& each : programs.shorter) result.add(each.graph, each.program);
  return result;
}

}  // namespace mantissa
