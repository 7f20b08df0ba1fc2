#include "api/settings/settings.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "api/settings/quantise_settings.h"
#include "base/files/file_system.h"
#include "base/system/thread_pool.h"
#include "infer/text/translate.h"
#include "run/settings/config_file.h"
#include "run/settings/derived_settings.h"
#include "run/settings/run_folder.h"

namespace mantissa {
namespace {

// "7" or "0-9".
Status parse_range(const std::string& text, InferenceConfig& config) {
  constexpr int64_t kMost = 1'000'000'000;
  const auto dash = text.find('-', 1);
  const auto refuse = [&] {
    return invalid_input("index: '" + text + "' is neither a number nor a range such as 0-9");
  };
  const auto first = parse_integer("index", text.substr(0, dash), 0, kMost);
  if (!first.ok()) return refuse();
  config.first_index = config.last_index = *first;
  if (dash != std::string::npos) {
    const auto last = parse_integer("index", text.substr(dash + 1), *first, kMost);
    if (!last.ok()) return refuse();
    config.last_index = *last;
  }
  constexpr int64_t kMostExamples = 10'000;
  if (config.last_index - config.first_index >= kMostExamples) {
    return invalid_input("index: '" + text + "' is more than " + std::to_string(kMostExamples) +
                         " examples");
  }
  return {};
}

Status set(const std::string& name, const std::string& text, InferenceConfig& config) {
  if (name == "checkpoint") config.checkpoint = text;
  if (name == "from") config.from = text;
  if (name == "format") config.format = text;
  if (name == "data") config.data = text;
  if (name == "input") config.input = text;
  if (name == "csv") config.csv = text;
  if (name == "raw") config.raw = text;
  if (name == "out") config.out = text;
  if (name == "target") config.target = text;
  if (name == "index") return parse_range(text, config);
  if (name == "batch-size") {
    MANTISSA_ASSIGN(config.batch_size, parse_integer(name, text, 1, 1 << 20));
  }
  if (name == "beam") {
    MANTISSA_ASSIGN(config.beam, parse_integer(name, text, 1, kMostBeam));
  }
  if (name == "threads") {
    MANTISSA_ASSIGN(const int64_t threads, parse_integer(name, text, 0, 256));
    if (threads > 0) config.threads = static_cast<int>(threads);
  }
  if (name == "isa") {
    MANTISSA_ASSIGN(config.isa, parse_isa(text));
  }
  return {};
}

// The format of exported encoders: 8 bits, an exponent for each row of values and of weights.
constexpr const char* kEncoderFormat = "bfp:block=channel,blocks=token";

const SettingInfo kCheckpoint{
    "checkpoint", "folder of a run, its model.safetensors, or an exported .onnx file", ""};
const SettingInfo kBatch{"batch-size", "examples computed at once; changes no result", "128"};
const SettingInfo kThreads{"threads", "threads to compute with (0: one per core)", "0"};
const SettingInfo kIsa{"isa", "instruction set: auto, scalar, avx2, avxvnni, avx512vnni, amx",
                       "auto"};

std::vector<SettingInfo> training_infos(bool writes) {
  std::vector<SettingInfo> infos;
  for (const Setting& setting : training_settings()) {
    const std::string name = setting.name;
    const bool about_files =
        name == "out" || name == "resume" || name == "overwrite" || name == "tensorboard";
    if (!writes && about_files) continue;
    infos.push_back(
        {setting.name, setting.help, setting.default_text, setting.is_switch, setting.is_list});
  }
  infos.push_back({"config", "TOML file with settings; those on the command line win", ""});
  return infos;
}

// The settings of training that describe a network.
std::vector<SettingInfo> network_infos() {
  std::vector<SettingInfo> infos;
  for (const Setting& setting : training_settings()) {
    const std::string name = setting.name;
    const bool of_data = name == "data" || name == "input-size" || name == "classes" ||
                         is_of_tables(name) || name == "sequence" || name == "tokens" ||
                         name == "vocabulary";
    if (name != "model" && !of_data && !is_of_built_in_networks(name)) continue;
    infos.push_back(
        {setting.name, setting.help, setting.default_text, setting.is_switch, setting.is_list});
  }
  return infos;
}

std::vector<SettingInfo> simulation_infos() {
  return {
      {"stages", "stages, all alike, up to 1000", "4"},
      {"pipeline", "flush, async, stash or 2bw, as in train", "flush"},
      {"flush-form", "order of a flush: gpipe, 1f1b, or split (grad_weights apart)", "split"},
      {"windows", "micro-batches in flight, of the others: lean or full", "lean"},
      {"accumulate", "micro-batches of an update", "1"},
      {"updates", "updates to simulate (0: enough to fill the pipeline several times)", "0"},
      {"times", "forward, grad_input and grad_weights of a micro-batch at a stage", "1ms,1ms,1ms"},
      {"update-time", "time of an update at a stage", "0s"},
      {"hop", "time from one stage to the next", "0s"},
      {"jitter", "each piece of work takes 1 +- so much of its time", "0"},
      {"straggler", "a slower stage and how many times: 3x2.5", ""},
      {"seed", "of the jitter", "0"},
      {"fused", "gradients go on only behind grad_weights", "false", true},
      {"diagram", "draw who works on which micro-batch when, for three updates of each stage",
       "false", true},
      {"svg", "file to draw it to, in true proportions", ""},
      {"trace", "file for its first steps, as Perfetto and Chrome show it", ""},
      {"from-trace",
       "a file that train --trace wrote: stages, times and pipeline are those that it has", ""}};
}

}  // namespace

std::vector<SettingInfo> settings_of(const std::string& command) {
  if (command == "train") return training_infos(true);
  if (command == "plan") {
    std::vector<SettingInfo> infos = training_infos(false);
    infos.push_back({"explain",
                     "show per value what keeping it and computing it again takes, and what was "
                     "decided, instead of the program",
                     "false", true});
    infos.push_back(
        {"show", "what to print before the memory: program, exponents or schedule", "program"});
    infos.push_back({"diagram", "with --stages: draw who works on which micro-batch when, instead",
                     "false", true});
    infos.push_back({"svg", "with --stages: file to draw it to, in estimated proportions", ""});
    return infos;
  }
  if (command == "simulate") return simulation_infos();
  if (command == "launch") {
    return {{"processes", "processes to start: one for each stage, times --replicas", ""},
            {"hosts", "file of the hosts to start them on, as mpirun takes it: NAME slots=N", ""},
            {"deadline", "seconds after which a process that is not heard of ends the run", "60"}};
  }
  if (command == "bench") return bench_infos();
  if (command == "quantize") return quantise_infos();
  if (command == "profile") {
    return {{"out", "file to write (left out: where later runs look for it)", ""}, kThreads, kIsa};
  }
  if (command == "eval") {
    return {kCheckpoint,
            {"data", "data set to evaluate on (left out: that of the training)", ""},
            {"out", "file for the JSON, or a folder for evaluation.json", ""},
            {"beam", "hypotheses of a sentence, of networks that translate", "4"},
            kBatch,
            kThreads,
            kIsa};
  }
  if (command == "generate") {
    return {kCheckpoint,
            {"prompt", "text to begin with", ""},
            {"length", "tokens to generate", "200"},
            {"temperature",
             "how freely tokens are drawn: below 1 likelier ones, 0 always the likeliest", "1"},
            {"top-k", "draw among so many likeliest tokens (0: all)", "0"},
            {"seed", "of the tokens drawn", "1"},
            kThreads,
            kIsa};
  }
  if (command == "serve") {
    return {kCheckpoint,
            {"host", "address to listen on; 127.0.0.1 is this machine alone", "127.0.0.1"},
            {"port", "port to listen on (0: any that is free)", "8080"},
            {"names", "other names by which clients may call this machine, with commas", ""}};
  }
  if (command == "data") {
    std::vector<SettingInfo> infos = {
        {"data", "data set, also without --data: a name, a folder or a file", ""},
        {"input-size", "size that pictures are brought to, as in train", "0"},
        {"contact-sheet", "PNG file to write, with a row of training pictures for each class", ""}};
    for (const Setting& setting : training_settings()) {
      if (!is_of_tables(setting.name)) continue;
      infos.push_back(
          {setting.name, setting.help, setting.default_text, setting.is_switch, setting.is_list});
    }
    infos.push_back(kThreads);
    return infos;
  }
  if (command == "info") {
    std::vector<SettingInfo> infos = network_infos();
    infos.push_back({.name = "shape",
                     .help = "sizes of an ONNX network's input, as in x=1x3x224x224",
                     .default_value = "",
                     .is_list = true});
    return infos;
  }
  if (command == "fill-mask") {
    return {kCheckpoint,
            {"text", "a text in which [MASK] stands for what is to be found", ""},
            {"top", "guesses for each mask", "5"},
            kThreads,
            kIsa};
  }
  if (command == "translate") {
    return {kCheckpoint,
            {"text", "a sentence to translate", ""},
            {"data", "text file, a sentence on each line", ""},
            {"out", "file for the translations, one on each line", ""},
            {"beam", "hypotheses of a sentence; 1 takes the likeliest token each time", "4"},
            {"batch-size", "sentences computed at once; changes no result in integers", "32"},
            kThreads,
            kIsa};
  }
  if (command == "embed") {
    return {{"from", "encoder: a file that import wrote, or a folder in BERT's layout", ""},
            {"data", "text file, a sentence on each line", ""},
            {"out", "file for the vectors, float32 [sentences, channels]: .npy or .npz", ""},
            {"format", "number format", "fp32"},
            {"sequence", "most tokens of a sentence (left out: as the network says)", ""},
            {"batch-size", "sentences computed at once; changes no result in integers", "32"},
            kThreads,
            kIsa};
  }
  if (command == "run") {
    return {{"inputs", "NPZ file with an array for each input", ""},
            {"out", "NPZ file to write, with an array for each output", ""},
            kThreads};
  }
  if (command == "import") {
    std::vector<SettingInfo> infos = {
        {"out", "safetensors file to write: network and weights", ""},
        {"classes", "outputs of the network (0: those of the model)", "0"},
        {"data", "with --insert-batch-norm: data set with pictures to set them from", ""},
        {"sequence",
         "positions of an example, of sequences (left out: the model's; of an encoder 128, or its "
         "own)",
         ""}};
    for (const Setting& setting : training_settings()) {
      if (!is_setting_of_import(setting.name)) continue;
      infos.push_back(
          {setting.name, setting.help, setting.default_text, setting.is_switch, setting.is_list});
    }
    infos.push_back(kThreads);
    return infos;
  }
  if (command == "statistics") {
    return {
        {"kind", "tensors to show: value, gradient, parameter, parameter-gradient, or all", "all"}};
  }
  if (command == "report") {
    return {{"out", "the HTML file to write", "report.html"},
            {"tensorboard", "folder for event files of the runs, one folder each", ""}};
  }
  if (command == "export") {
    return {
        kCheckpoint,
        {"from", "encoder in place of a run: a file of import, or a folder in BERT's layout", ""},
        {"format", "with --from: number format; fp32 writes a network of real numbers",
         kEncoderFormat},
        {"target",
         "ort: for ONNX Runtime's integer kernels; portable: 4-bit weights where "
         "they fit",
         "ort"},
        {"out", "the ONNX file to write", ""}};
  }
  if (command == "predict") {
    return {
        kCheckpoint,
        {.name = "input",
         .help = "PNG or JPEG pictures, or folders of them; or a CSV file of rows",
         .default_value = "",
         .is_list = true},
        {"data", "data set whose test examples --index names (left out: that of the training)", ""},
        {"index", "test examples: 7, or 0-9", "0"},
        {"csv", "file to write the predictions to as CSV (-: standard output)", ""},
        {"raw", "NPZ file for the logits as integers: mantissas [N, classes], and their exponent",
         ""},
        kThreads,
        kIsa};
  }
  return {};
}

namespace {

// The configuration file that a command names; for --resume without one, the run's own. There must
// be one, unless the command names the network and data and nothing was saved yet.
Result<std::string> config_path(const Settings& settings) {
  if (const auto named = settings.find("config"); named != settings.end()) return named->second;
  const auto resume = settings.find("resume"), out = settings.find("out");
  if (resume == settings.end() || resume->second != "true" || out == settings.end()) {
    return std::string();
  }
  const std::filesystem::path folder = out->second, path = folder / kConfigFile;
  MANTISSA_ASSIGN(const bool has_config, is_there(path));
  if (has_config) return path.string();
  if (settings.contains("model") || settings.contains("from")) return std::string();
  MANTISSA_ASSIGN(const bool has_folder, is_there(folder));
  return invalid_input(
      "--resume: " + folder.string() +
      (has_folder ? " holds no run (no config.toml)" : " is not there") +
      "; name the folder of a run, or --model, --from or --config to begin one there");
}

// If one of these settings is missing, others mean nothing or cannot be used. If the command line
// names a network or weights again, the file's own copy may be gone.
bool is_base_of_others(const std::string& name, const std::string& text) {
  if (name == "model" && !is_network_file(text)) return true;
  std::error_code ignored;
  if (name == "model" || name == "from") return std::filesystem::exists(text, ignored);
  return name == "optimizer" || name == "lr-schedule" || name == "validation" ||
         name == "batch-size";
}

// Whether the command line says other than the file.
bool changes(const std::string& name, const Settings& settings, const Settings& file) {
  const auto now = settings.find(name), before = file.find(name);
  if (now == settings.end()) return false;
  if (before != file.end()) return now->second != before->second;
  const auto known = training_settings();
  const auto setting =
      std::find_if(known.begin(), known.end(), [&](const Setting& s) { return name == s.name; });
  return setting == known.end() || now->second != setting->default_text;
}

// A file's settings for one optimizer, schedule or format do not fit another that the command line
// names. Settings that followed from another follow anew.
void drop_settings_of_others(const Settings& settings, ConfigFile& file) {
  const auto other = [&](const char* name) { return changes(name, settings, file.settings); };
  std::erase_if(file.derived, [&](const auto& item) {
    for (const DerivedSetting& derived : derived_settings()) {
      if (item.first != derived.name) continue;
      return std::any_of(derived.from.begin(), derived.from.end(),
                         [&](const char* from) { return from != nullptr && other(from); });
    }
    return false;
  });
  const bool optimizer_changes = other("optimizer"), schedule_changes = other("lr-schedule");
  const auto format = settings.find("format");
  const auto model = settings.find("model");
  const bool has_own_network = model != settings.end() && is_network_file(model->second);
  const bool has_no_mantissas = format != settings.end() && format->second == "fp32";
  std::erase_if(file.settings, [&](const auto& item) {
    const std::string& name = item.first;
    return (optimizer_changes &&
            (is_optimizer_setting(name) || name == "learning-rate" || name == "weight-decay")) ||
           (schedule_changes && name.starts_with("plateau-")) ||
           (has_no_mantissas && name == "statistics") ||
           (has_own_network && is_of_built_in_networks(name));
  });
}

// Either of the two overrides the other in a file.
void drop_other_length(const Settings& settings, Settings& file) {
  const auto steps = settings.find("steps");
  if (settings.contains("epochs")) file.erase("steps");
  if (steps != settings.end() && steps->second != "0") file.erase("epochs");
}

// The configuration file that the settings name, without the entries that they make void. Entries
// that they do not override must be valid on their own, so that errors name the file.
Result<ConfigFile> read_config_for(const Settings& settings) {
  MANTISSA_ASSIGN(const std::string path, config_path(settings));
  if (path.empty()) return ConfigFile{};
  MANTISSA_ASSIGN(ConfigFile file, read_config(path));
  drop_other_length(settings, file.settings);
  drop_settings_of_others(settings, file);
  Settings rest = file.settings;
  std::erase_if(rest, [&](const auto& item) {
    return settings.contains(item.first) && !is_base_of_others(item.first, item.second);
  });
  Result<RunConfig> alone = make_run_config(rest, file.derived);
  if (alone.ok()) return file;
  alone.error().message = path + ": " + alone.error().message;
  return alone.error();
}

// A file that a run began with may be gone: the run has a copy, which goes before an error.
Status check_resumed_file(const Settings& settings, const std::string& name, const char* copy,
                          const char* content) {
  const auto named = settings.find(name), resume = settings.find("resume");
  const auto out = settings.find("out");
  if (resume == settings.end() || resume->second != "true" || out == settings.end() ||
      named == settings.end() || (name == "model" && !is_network_file(named->second))) {
    return {};
  }
  MANTISSA_ASSIGN(const bool is_here, is_there(named->second));
  MANTISSA_ASSIGN(const bool has_copy, is_there(std::filesystem::path(out->second) / copy));
  if (is_here || !has_copy) return {};
  return invalid_input(named->second + ": is not there; " + out->second + " keeps its " + content +
                       ": leave --" + name + " out");
}

}  // namespace

Status check_resumed_files(const Settings& settings) {
  MANTISSA_RETURN_IF_ERROR(check_resumed_file(settings, "model", kNetworkFile, "network"));
  return check_resumed_file(settings, "from", kStartFile, "starting weights");
}

Result<RunConfig> training_config(const Settings& settings) {
  MANTISSA_RETURN_IF_ERROR(check_resumed_files(settings));
  MANTISSA_ASSIGN(const ConfigFile file, read_config_for(settings));
  Settings merged = file.settings;
  for (const auto& [name, text] : settings) {
    if (name != "config") merged[name] = text;
  }
  return make_run_config(merged, file.derived);
}

Status check_known(const std::string& command, const Settings& settings) {
  const std::vector<SettingInfo> known = settings_of(command);
  for (const auto& [name, text] : settings) {
    const bool found = std::any_of(known.begin(), known.end(),
                                   [&name = name](const auto& info) { return info.name == name; });
    if (!found) return invalid_input("unknown setting '" + name + "' of " + command);
  }
  return {};
}

Result<DescribeConfig> describe_config(const Settings& settings) {
  MANTISSA_RETURN_IF_ERROR(check_known("data", settings));
  // All but the contact sheet are settings of training.
  Settings training = settings;
  training.erase("contact-sheet");
  MANTISSA_ASSIGN(const RunConfig run, make_run_config(training));
  if (settings.count("data") == 0) return invalid_input("name a data set or a folder");
  const auto sheet = settings.find("contact-sheet");
  return DescribeConfig{run.data, data_options(run), sheet == settings.end() ? "" : sheet->second};
}

Result<InferenceConfig> inference_config(const std::string& command, const Settings& settings) {
  InferenceConfig config;
  config.isa = best_isa();
  config.threads = processors();
  MANTISSA_RETURN_IF_ERROR(check_known(command, settings));
  for (const auto& [name, text] : settings) {
    MANTISSA_RETURN_IF_ERROR(set(name, text, config));
  }
  if (!config.input.empty() && (settings.count("index") > 0 || settings.count("data") > 0)) {
    return invalid_input("give either --input, or --data and --index");
  }
  if (!config.from.empty()) {
    if (config.format.empty()) config.format = kEncoderFormat;
    if (config.checkpoint.empty()) return config;
    return invalid_input("give either --checkpoint, or --from for an encoder");
  }
  if (!config.format.empty()) {
    return invalid_input("--format: a run has its own; it is for encoders, which --from names");
  }
  if (config.checkpoint.empty()) {
    return invalid_input(
        "--checkpoint: name the folder of a run, its model.safetensors, or an exported .onnx file");
  }
  MANTISSA_ASSIGN(const PathKind kind, path_kind(config.checkpoint));
  if (kind == PathKind::kFolder) {
    config.checkpoint = (std::filesystem::path(config.checkpoint) / "model.safetensors").string();
  }
  return config;
}

}  // namespace mantissa
