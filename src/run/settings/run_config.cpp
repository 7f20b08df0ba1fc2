#include "run/settings/run_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/files/file_system.h"
#include "base/real_text.h"
#include "base/sizes.h"
#include "base/system/thread_pool.h"
#include "data/datasets/readers.h"
#include "infer/frozen_network.h"
#include "infer/tasks/language.h"
#include "models/json/network_json.h"
#include "networks/folded_norms.h"
#include "networks/imported_network.h"
#include "networks/named_inputs.h"
#include "networks/network.h"
#include "ops/losses/loss_weight.h"
#include "run/division.h"
#include "run/settings/derived_settings.h"
#include "run/settings/profile_file.h"
#include "run/settings/run_folder.h"
#include "run/settings/run_lengths.h"
#include "run/settings/text_settings.h"

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

// A division by hand, which also sets the number of stages unless the settings do.
Status take_division(RunConfig& config) {
  PipelineConfig& way = config.pipeline;
  const bool by_graph =
      way.as_graph_says || (way.stages > 1 && !way.partition && way.first_layers.empty() &&
                            !config.network_stages.empty());
  if (by_graph && config.network_stages.empty()) {
    return invalid_input(
        "partition graph: is for a network from a file whose nodes have \"stage\" "
        "(docs/networks.md)");
  }
  if (by_graph) way.first_layers = config.network_stages;
  const auto count = std::ssize(way.first_layers);
  if (count == 0) return {};
  if (count == 1) return invalid_input("partition: names one stage; a pipeline has several");
  if (way.stages == 1) way.stages = count;
  if (way.stages == count) return {};
  return invalid_input(
      (by_graph ? config.network_file + ": has nodes of " : "partition: names the layers of ") +
      std::to_string(count) + " stages, and --stages says " + std::to_string(way.stages) +
      "; --partition operations divides them anew");
}

Status check_sync_last(const RunConfig& config) {
  const PipelineConfig& way = config.pipeline;
  if (way.sync_last == 0) return {};
  if (way.stages == 1 || !way.is_asynchronous()) {
    return invalid_input(
        "sync-last: is for asynchronous pipelines of several stages (--pipeline async, stash or "
        "2bw); others flush in all steps");
  }
  if (config.early_stop > 0) {
    return invalid_input("sync-last: no one knows the last steps of a run with --early-stop");
  }
  return {};
}

Status resolve_pipeline(RunConfig& config) {
  PipelineConfig& way = config.pipeline;
  if (way.accumulate > 0 && config.micro_batch_size * way.accumulate != config.batch_size) {
    return invalid_input("accumulate " + std::to_string(way.accumulate) + " and micro-batch-size " +
                         std::to_string(config.micro_batch_size) + " do not make batch-size " +
                         std::to_string(config.batch_size));
  }
  MANTISSA_RETURN_IF_ERROR(take_division(config));
  MANTISSA_RETURN_IF_ERROR(check_sync_last(config));
  if (way.predicts_weights && !way.is_asynchronous()) {
    return invalid_input(
        "predict-weights: with --pipeline flush no micro-batch misses an update; choose async, "
        "stash or 2bw");
  }
  if (way.stage_warmup > 0 && !way.is_asynchronous()) {
    return invalid_input(
        "stage-warmup: with --pipeline flush no micro-batch misses an update; choose async, stash "
        "or 2bw, or --warmup for all layers alike");
  }
  if (way.stages == 1) {
    way.mode = pipeline::Mode::kFlush;
    way.predicts_weights = false;
    way.stage_warmup = 0;
  }
  // Estimated times are a machine's own: results must not depend on them.
  if (!way.partition && way.first_layers.empty()) {
    way.partition =
        way.is_asynchronous() ? pipeline::Balance::kOperations : pipeline::Balance::kTime;
  }
  if (way.is_asynchronous() && way.partition == pipeline::Balance::kTime) {
    return invalid_input(
        "partition time: goes with --pipeline flush; in others the division "
        "decides results, which must not depend on a machine's times");
  }
  if (way.stages == 1 && way.stage_memory > 0) {
    return invalid_input("stage-memory: is for --stages 2 and more; --memory-budget is for one");
  }
  if (way.stages == 1 && !config.trace.empty()) {
    return invalid_input("trace: is of a pipeline: say how many --stages");
  }
  if (way.stages == 1 && way.replicas == 1) return {};
  if (config.clip_norm > 0) {
    return invalid_input("clip-norm: no stage of a pipeline knows the norm of all gradients");
  }
  if (config.planner == Planner::kExact) {
    return invalid_input("plan exact: is for one stage; --plan search is for several");
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

// Reads the trained network that --teacher names: a file, or the folder of a run.
Status take_teacher(const std::map<std::string, std::string>& settings, RunConfig& config) {
  if (config.teacher.empty()) {
    for (const char* name : {"teacher-weight", "temperature"}) {
      if (settings.contains(name)) return invalid_input(std::string(name) + ": goes with --teacher");
    }
    return {};
  }
  MANTISSA_ASSIGN(const PathKind kind, path_kind(config.teacher));
  const std::filesystem::path path = config.teacher;
  const bool is_run = kind == PathKind::kFolder;
  auto network = load_frozen(is_run ? path / kModelFile : path);
  if (!network.ok()) return make_error(network.error().code, "teacher: " + network.error().message);
  config.teacher_network = std::make_shared<FrozenNetwork>(std::move(*network));
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

Result<Graph> network_at(const std::string& path, RunConfig& config) {
  if (!is_onnx_file(path)) {
    MANTISSA_ASSIGN(NetworkText network, read_network_text(path));
    config.network_stages = std::move(network.stages);
    return std::move(network.graph);
  }
  MANTISSA_ASSIGN(onnx::ImportedNetwork imported, import_file(path, config.import_options));
  config.is_imported = true;
  config.notes = std::move(imported.notes);
  config.model_outputs = std::move(imported.outputs);
  config.adapts_classes = true;
  return std::move(imported.graph);
}

// A setting of the loss that is added to an imported model.
bool is_loss_setting(std::string_view name) {
  constexpr std::string_view kNames[] = {"loss", "label-smoothing", "focal", "positive-weights",
                                         "huber-delta"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// The factors of the losses, in the network.
Status take_loss_weights(RunConfig& config) {
  if (config.loss_weights.empty()) return {};
  if (!config.network || !has_several_outputs(*config.network)) {
    return invalid_input("loss-weights: is for networks with several outputs, and '" +
                         config.model + "' has one");
  }
  std::set<std::string> named;
  for (const std::string& each : parse_missing(config.loss_weights)) {
    const size_t sign = each.rfind('=');
    const std::string name = each.substr(0, sign);
    if (sign == std::string::npos) {
      return invalid_input("loss-weights: '" + each + "' is not as kind=0.5");
    }
    if (!named.insert(name).second) {
      return invalid_input("loss-weights: '" + name + "' is named twice");
    }
    MANTISSA_ASSIGN(const double weight,
                    parse_real("loss-weights", each.substr(sign + 1), ops::kLeastLossWeight,
                               ops::kMostLossWeight));
    const Status status = ops::set_loss_weight(*config.network, name, weight);
    if (!status.ok()) return invalid_input("loss-weights: " + status.error().message);
  }
  return {};
}

// Reads the network if the settings name a file.
Status take_network(const std::map<std::string, std::string>& settings, RunConfig& config) {
  if (!config.network) {
    if (!is_network_file(config.model)) return {};
    config.network_file = config.model;
    MANTISSA_ASSIGN(config.network, network_at(config.network_file, config));
  }
  for (const auto& [name, text] : settings) {
    if (!has_trait(name, traits::kOfBuiltIn)) continue;
    if (config.is_imported && is_loss_setting(name)) continue;
    return invalid_input(name + ": is for built-in networks; " + config.network_file +
                         " says it itself: leave it out, or change the file");
  }
  if (is_text_encoder(*config.network)) {
    config.model = config.network->name;
    return {};
  }
  if (reads_tokens(*config.network) && !is_text_classifier(*config.network)) {
    config.model = config.network->name;
    const Result<LanguageOptions> language = language_options(*config.network);
    if (language.ok()) return {};
    return invalid_input(config.network_file + ": " + language.error().message);
  }
  const Result<ModelOptions> options = example_options(*config.network);
  if (!options.ok()) return invalid_input(config.network_file + ": " + options.error().message);
  config.model = config.network->name;
  config.loss = options->loss;
  config.label_smoothing = options->label_smoothing;
  config.focal = options->focal;
  config.positive_weights = options->positive_weights;
  config.huber_delta = options->huber_delta;
  return {};
}

// A language model that a run starts from brings its vocabulary: its numbers mean nothing with
// another one. Settings may repeat it.
Status take_known_vocabulary(const std::map<std::string, std::string>& settings,
                             RunConfig& config) {
  if (!config.start) return {};
  MANTISSA_ASSIGN(const TrainedFile trained, reread(*config.start, Reading::kByParameter));
  MANTISSA_ASSIGN(config.known_vocabulary, vocabulary_of(trained));
  if (!config.known_vocabulary) return {};
  const Vocabulary& known = *config.known_vocabulary;
  const Tokens tokens = known.tokens();
  if (settings.contains("tokens") && config.tokens != tokens) {
    return invalid_input("tokens " + std::string(tokens_name(config.tokens)) + ": " +
                         config.start->source + " knows " + std::string(tokens_name(tokens)) +
                         ", and keeps them: leave it out");
  }
  config.tokens = tokens;
  const bool has_pieces = tokens == Tokens::kPieces || tokens == Tokens::kWordPieces;
  const auto pieces = std::ssize(known.names()) - (known.wordpiece() == nullptr && known.mask());
  if (has_pieces && config.vocabulary > 0 && config.vocabulary < pieces) {
    return invalid_input("vocabulary " + std::to_string(config.vocabulary) + ": " +
                         config.start->source + " has " + std::to_string(pieces) +
                         " pieces, and keeps them: leave it out");
  }
  if (config.vocabulary_file.empty()) {
    if (has_pieces && config.vocabulary == 0) config.vocabulary = pieces;
    return {};
  }
  MANTISSA_ASSIGN(const WordPiece tokenizer, read_wordpiece(config.vocabulary_file));
  if (tokenizer.pieces() == known.names()) return {};
  return invalid_input("vocabulary: " + config.start->source + " has other pieces than " +
                       config.vocabulary_file + ", and keeps them: leave it out");
}

// How many pieces of words there are, or the file that has them.
Status take_vocabulary(bool translates, RunConfig& config) {
  const bool has_words = config.tokens == Tokens::kWordPieces;
  if (has_words && translates) {
    return invalid_input(
        "tokens wordpiece: loses spaces and line feeds; networks that translate take "
        "sentencepiece, "
        "characters or bytes");
  }
  if (!has_words && !config.vocabulary_file.empty()) {
    return invalid_input("vocabulary: the file of a tokenizer is for --tokens wordpiece, and " +
                         config.vocabulary_file + " is no number of pieces");
  }
  const bool has_pieces = has_words || config.tokens == Tokens::kPieces;
  if (!has_pieces && config.vocabulary > 0) {
    return invalid_input("vocabulary: is for --tokens sentencepiece and wordpiece; " +
                         std::string(tokens_name(config.tokens)) + " are as many as there are");
  }
  const bool is_open = config.vocabulary == 0 && config.vocabulary_file.empty();
  if (has_pieces && is_open) config.vocabulary = kUsualPieces;
  return {};
}

// A network of positions or of pictures with many channels says its sizes itself; an imported one
// got open sizes from these settings. Repeated, they must be the same.
Status take_sizes_of_numbers(const std::map<std::string, std::string>& settings,
                             RunConfig& config) {
  const Value* const numbers =
      config.network ? input_named(*config.network, kNumberTensor) : nullptr;
  if (numbers == nullptr) return {};
  const Shape& shape = numbers->shape;
  const std::string has = ": " + config.network_file + " has ";
  if (shape.rank == 2 && settings.contains("sequence")) {
    if (config.sequence != shape[0]) {
      return invalid_input("sequence " + std::to_string(config.sequence) + has +
                           std::to_string(shape[0]) + " positions: leave it out");
    }
    config.sequence = 0;
  }
  if (shape.rank == 3 && settings.contains("input-size")) {
    const PictureSize size{.height = shape[0], .width = shape[1]};
    if (config.input_size.height != 0 && config.input_size != size) {
      return invalid_input("input-size " + to_string(config.input_size) + has + "pictures of " +
                           to_string(size) + ": leave it out");
    }
    config.input_size = {};
  }
  return {};
}

// Language models read a text, in sequences; their optimizer is Adam unless another is named.
Status take_language(const std::map<std::string, std::string>& settings, RunConfig& config) {
  constexpr int64_t kSequence = 128, kSentence = 64;
  const bool is_language = config.network ? reads_tokens(*config.network) && !reads_texts(config) &&
                                                !reads_named_arrays(config)
                                          : is_language_model(config.model);
  if (!is_language) {
    for (const char* name : {"sequence", "tokens", "vocabulary", "pack", "tied"}) {
      const bool of_texts =
          name == std::string_view("sequence") || name == std::string_view("vocabulary");
      if (!settings.contains(name) || (reads_texts(config) && of_texts)) continue;
      if (name == std::string_view("sequence") && config.sequence == 0) continue;
      return invalid_input(std::string(name) +
                           ": is for language models, such as transformer_lm; " + config.model +
                           (reads_texts(config) ? " reads texts with labels" : " reads pictures"));
    }
    return {};
  }
  if (config.network) {
    MANTISSA_ASSIGN(const LanguageOptions options, language_options(*config.network));
    if (config.sequence == 0) config.sequence = options.sequence;
    if (config.sequence != options.sequence) {
      return invalid_input("sequence " + std::to_string(config.sequence) + ": " +
                           config.network_file + " says it itself, " +
                           std::to_string(options.sequence) + ": leave it out, or change the file");
    }
  }
  const bool translates = text_options(config).task == TextTask::kTranslation;
  if (config.sequence == 0) config.sequence = translates ? kSentence : kSequence;
  if (translates && !settings.contains("tokens")) config.tokens = Tokens::kPieces;
  MANTISSA_RETURN_IF_ERROR(take_known_vocabulary(settings, config));
  MANTISSA_RETURN_IF_ERROR(take_vocabulary(translates, config));
  if (config.loss != ops::LossKind::kCrossEntropy) {
    return invalid_input("loss " + std::string(ops::loss_of(config.loss).name) +
                         ": is for networks of pictures; language models have cross-entropy");
  }
  if (!settings.contains("optimizer")) config.optimizer = OptimizerKind::kAdam;
  if (!settings.contains("batch-size")) config.batch_size = 16;
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

}  // namespace

bool is_network_file(std::string_view model) {
  return model.ends_with(".json") || model.ends_with(".onnx");
}

namespace {

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

TextOptions text_options(const RunConfig& config) {
  TextTask task = is_masked_model(config.model)        ? TextTask::kMasks
                  : is_translation_model(config.model) ? TextTask::kTranslation
                                                       : TextTask::kNextToken;
  if (config.network) {
    const auto options = language_options(*config.network);
    task = options.ok() ? options->task : TextTask::kNextToken;
  }
  return {.sequence = config.sequence,
          .tokens = config.tokens,
          .pieces = config.vocabulary,
          .vocabulary_file = config.vocabulary_file,
          .task = task,
          .known = config.known_vocabulary,
          .packs = config.pack};
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
