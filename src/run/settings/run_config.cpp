#include "run/settings/run_config.h"

#include <algorithm>

#include "base/system/thread_pool.h"
#include "data/datasets/readers.h"
#include "networks/folded_norms.h"
#include "networks/imported_network.h"
#include "networks/named_inputs.h"
#include "networks/network.h"
#include "run/settings/derived_settings.h"
#include "run/settings/profile_file.h"
#include "run/settings/run_lengths.h"
#include "run/settings/topics.h"

namespace mantissa {
namespace {

Status set(const std::string& name, const std::string& text, RunConfig& config) {
  const Setting* setting = training_setting(name);
  if (setting == nullptr) return invalid_input("unknown setting '" + name + "'");
  return parse_setting(*setting, text, config);
}

Status derive(const std::map<std::string, std::string>& derived, RunConfig& config) {
  const auto known = derived_settings();
  for (const auto& [name, text] : derived) {
    const bool found = std::any_of(known.begin(), known.end(), [&name = name](const auto& setting) {
      return name == setting.name;
    });
    if (!found) return invalid_input("[derived]: '" + name + "' is not derived from settings");
  }
  for (const DerivedSetting& setting : known) {
    if (!setting.is_open(config)) continue;
    config.derived.emplace_back(setting.name);
    if (const auto before = derived.find(setting.name); before != derived.end()) {
      MANTISSA_RETURN_IF_ERROR(set(before->first, before->second, config));
    }
    if (setting.is_open(config)) setting.derive(config);
  }
  return {};
}

// Settings of a loss that is not in use.
Status check_loss(const RunConfig& config) {
  if (!config.import_options.losses.empty() && !config.is_imported) {
    return invalid_input("loss: '" + config.model + "' has one; several are for the outputs of an "
                         "ONNX model that --output names");
  }
  const std::string not_with =
      " only, not with --loss " + std::string(ops::loss_of(config.loss).name);
  if (config.label_smoothing > 0 && !ops::loss_of(config.loss).smooths) {
    return invalid_input("label-smoothing goes with --loss cross-entropy and sigmoid" + not_with);
  }
  const bool is_sigmoid =
      config.loss == ops::LossKind::kSigmoids || config.loss == ops::LossKind::kOrdinal;
  if (config.focal > 0 && !is_sigmoid) {
    return invalid_input("focal goes with --loss sigmoid" + not_with);
  }
  if (!config.positive_weights.empty() && !is_sigmoid) {
    return invalid_input("positive-weights goes with --loss sigmoid" + not_with);
  }
  if (config.huber_delta != 1 && config.loss != ops::LossKind::kHuber) {
    return invalid_input("huber-delta goes with --loss huber" + not_with);
  }
  return {};
}

Status resolve(RunConfig& config) {
  MANTISSA_ASSIGN(config.profile, find_profile(config.profile_name));
  if (config.batch_size % config.micro_batch_size != 0) {
    return invalid_input("micro-batch-size " + std::to_string(config.micro_batch_size) +
                         " does not divide batch-size " + std::to_string(config.batch_size) +
                         "; --micro-batch-size 0 takes the whole batch at once");
  }
  if (config.threads == 0) {
    config.threads = processors();
  }
  MANTISSA_RETURN_IF_ERROR(resolve_pipeline(config));
  MANTISSA_RETURN_IF_ERROR(check_buckets(config));
  MANTISSA_RETURN_IF_ERROR(check_loss(config));
  if (config.statistics && config.format.is_float()) {
    return invalid_input("statistics: there are no mantissas to count in fp32; leave it out");
  }
  if (config.allow_inversion && config.format.is_float()) {
    return invalid_input("allow-inversion: is for integer formats, fp32 keeps what it reads");
  }
  if (config.allow_inversion) {
    config.format.keeps_norm_inputs = false;
    MANTISSA_ASSIGN(config.format, parse_format(to_string(config.format)));  // may not go together
  }
  if (config.resume && config.overwrite) {
    return invalid_input("--resume and --overwrite exclude each other");
  }
  return {};
}

// A run goes on with the adapters that its start has.
Status take_adapters(const TrainedNetwork& found,
                     const std::map<std::string, std::string>& settings, RunConfig& config) {
  if (found.network && !settings.contains("lora")) {
    const LoraChoice has = lora_of(*found.network);
    if (has.rank > 0) config.lora = has;
  }
  if (!found.settings.contains("lora")) return {};
  for (const char* name : {"lora", "lora-on", "lora-alpha"}) {
    const auto was = found.settings.find(name), now = settings.find(name);
    const std::string before = was == found.settings.end() ? "" : was->second;
    if (now == settings.end() || now->second == before) continue;
    return invalid_input(std::string(name) + ": " + config.from + " has adapters already (lora " +
                         found.settings.at("lora") +
                         "), and goes on with them: leave it out, or export the network merged "
                         "with them and import it");
  }
  return {};
}

// Reads the start that --from names. If the settings name no network, it has the start's.
Status take_start(const std::map<std::string, std::string>& settings, RunConfig& config) {
  if (config.from.empty()) return {};
  MANTISSA_ASSIGN(const TrainedFile trained,
                  read_trained(config.from, config.import_options, Reading::kByParameter));
  MANTISSA_ASSIGN(config.start, starting_point(trained));
  config.start->options = config.import_options;
  if (trained.imported) {
    config.notes = trained.imported->notes;
    config.model_outputs = trained.imported->outputs;
  }
  if (settings.contains("model")) return {};
  MANTISSA_ASSIGN(TrainedNetwork found, network_of(trained));
  const auto kind = trained.file.metadata.find("kind");
  const bool was_imported = kind != trained.file.metadata.end() && kind->second == kImportedKind;
  if ((trained.imported || was_imported) && found.network && !config.inserts_batch_norm) {
    const std::string hint = folded_norms_text(*found.network);
    if (!hint.empty()) config.notes.push_back(hint);
  }
  for (const auto& [name, text] : found.settings) {
    if (!settings.contains(name)) MANTISSA_RETURN_IF_ERROR(set(name, text, config));
  }
  MANTISSA_RETURN_IF_ERROR(take_adapters(found, settings, config));
  config.is_imported = trained.imported != nullptr;
  config.network = std::move(found.network);
  config.network_file = is_network_file(config.model) ? config.model : trained.path.string();
  config.adapts_classes = true;
  return {};
}

// An error for a setting that has no effect here, because the thing that it belongs to is not in
// use.
Status check_use(const std::string& name, const RunConfig& config) {
  if (is_optimizer_setting(name) && !has_setting(config.optimizer, name)) {
    std::string users;
    for (const Optimizer& row : optimizers()) {
      if (!has_setting(row.kind, name)) continue;
      users += (users.empty() ? "" : " and ") + std::string(row.name);
    }
    return invalid_input(name + ": is for " + users + "; the optimizer is " +
                         std::string(optimizer_name(config.optimizer)));
  }
  const bool imports =
      is_onnx_file(config.from) || (config.network && is_onnx_file(config.network_file));
  if (has_trait(name, traits::kOfImports) && !imports) {
    return invalid_input(name + ": is for ONNX models, named by --from or --model");
  }
  if (name == "classifier" && !config.adapts_classes) {
    return invalid_input(name +
                         ": is for networks that --from brings, and for ONNX models; the others "
                         "have as many classes as they say");
  }
  const bool is_imported_start = is_onnx_file(config.from) && config.adapts_classes;
  if (name == "insert-batch-norm" && config.inserts_batch_norm && !is_imported_start) {
    return invalid_input(name + ": is for an ONNX model, named by --from alone");
  }
  const bool is_of_adapters = name == "lora-on" || name == "lora-alpha" || name == "lora-also";
  if (is_of_adapters && config.lora.rank == 0) return invalid_input(name + ": goes with --lora");
  if (name == "lora" && config.lora.rank > 0 && config.from.empty()) {
    return invalid_input(name + ": is for trained weights, named by --from");
  }
  if (name == "fold-batch-norm" && config.folds_batch_norm && config.from.empty()) {
    return invalid_input(name + ": is for a trained network, named by --from");
  }
  if (name.starts_with("plateau-") && config.schedule != ScheduleKind::kPlateau) {
    return invalid_input(name + ": is for --lr-schedule plateau; the schedule is " +
                         std::string(schedule_name(config.schedule)));
  }
  return {};
}

// The targets that a network with several outputs wants.
std::vector<WantedTarget> wanted_targets(const Graph& network) {
  std::vector<WantedTarget> wanted;
  const auto options = example_options(network);
  if (!options.ok()) return wanted;
  for (const ModelOptions& output : options->outputs) {
    const bool is_number = ops::is_for_numbers(output.loss);
    const bool has_labels = output.loss == ops::LossKind::kSigmoids && !output.one_logit;
    wanted.push_back({output.labels, is_number, is_number || has_labels ? output.classes : 1});
  }
  return wanted;
}

}  // namespace

DataOptions data_options(const RunConfig& config) {
  DataOptions options{.size = config.input_size,
                      .classes = config.classes,
                      .positive = config.positive,
                      .threads = config.threads,
                      .table = config.table};
  if (config.network) options.table.outputs = wanted_targets(*config.network);
  const Value* const numbers =
      config.network ? input_named(*config.network, kNumberTensor) : nullptr;
  if (config.start && config.start->learned.is_known()) {
    options.learned = config.start->learned;
    options.learned->features = numbers != nullptr ? numbers->shape.count() : 0;
  }
  if (numbers != nullptr && numbers->shape.rank > 1) options.table.shape = numbers->shape;
  if (reads_picture_table(config)) {
    options.table.picture = input_named(*config.network, kPixelTensor)->shape;
    return options;
  }
  if (!reads_named_arrays(config)) return options;
  options.table.shape = {};
  options.table.inputs = array_inputs(*config.network);
  options.table.label_shape = label_shape_of_places(*config.network);
  if (const Node* const loss = loss_of_sequences(*config.network)) {
    options.table.label_shape = config.network->values[loss->inputs[1]].shape;
    options.table.classes_in_order = config.network->classes();
  }
  return options;
}

bool reads_picture_table(const RunConfig& config) {
  return config.network && reads_rows_and_pictures(*config.network) &&
         kCsvReader.recognises_file(config.data);
}

bool reads_named_arrays(const RunConfig& config) {
  if (!config.network || reads_picture_table(config)) return false;
  if (takes_named_arrays(*config.network)) return true;
  return config.data.ends_with(".npz") && is_text_classifier(*config.network);
}

int64_t RunConfig::labels_per_example() const {
  if (sequence > 0) return sequence;
  return network ? label_shape_of_places(*network).count() : 1;
}

RunConfig default_run_config() {
  RunConfig config;
  config.isa = best_isa();
  return default_config(training_settings(), config);
}

void take_import_loss(const std::map<std::string, std::string>& settings, RunConfig& config) {
  config.import_options.has_loss = settings.contains("loss");
  config.import_options.loss = {.kind = config.loss,
                                .smoothing = config.label_smoothing,
                                .focal = config.focal,
                                .positive_weights = config.positive_weights,
                                .delta = config.huber_delta};
}

Result<RunConfig> make_run_config(const std::map<std::string, std::string>& settings,
                                  const std::map<std::string, std::string>& derived) {
  RunConfig config = default_run_config();
  for (const auto& [name, text] : settings) {
    MANTISSA_RETURN_IF_ERROR(set(name, text, config));
  }
  config.import_options.height = config.input_size.height;
  config.import_options.width = config.input_size.width;
  config.import_options.sequence = config.sequence;
  take_import_loss(settings, config);
  MANTISSA_RETURN_IF_ERROR(take_start(settings, config));
  MANTISSA_RETURN_IF_ERROR(take_teacher(settings, config));
  MANTISSA_RETURN_IF_ERROR(take_network(settings, config));
  MANTISSA_RETURN_IF_ERROR(take_loss_weights(config));
  MANTISSA_RETURN_IF_ERROR(take_text(settings, config));
  MANTISSA_RETURN_IF_ERROR(take_sizes_of_numbers(settings, config));
  MANTISSA_RETURN_IF_ERROR(take_language(settings, config));
  for (const auto& [name, text] : settings) MANTISSA_RETURN_IF_ERROR(check_use(name, config));
  if (config.steps > 0 && settings.contains("epochs")) {
    return invalid_input("epochs and steps exclude each other: leave one of them out");
  }
  MANTISSA_RETURN_IF_ERROR(derive(derived, config));
  MANTISSA_RETURN_IF_ERROR(resolve(config));
  return config;
}

}  // namespace mantissa
