#include "api/settings.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <thread>

#include "base/file_system.h"
#include "train/config_file.h"

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
    return invalid_input("index: at most " + std::to_string(kMostExamples) + " examples at once");
  }
  return {};
}

Status set(const std::string& name, const std::string& text, InferenceConfig& config) {
  if (name == "checkpoint") config.checkpoint = text;
  if (name == "data") config.data = text;
  if (name == "input") config.input = text;
  if (name == "csv") config.csv = text;
  if (name == "out") config.out = text;
  if (name == "index") return parse_range(text, config);
  if (name == "batch-size") {
    MANTISSA_ASSIGN(config.batch_size, parse_integer(name, text, 1, 1 << 20));
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

const SettingInfo kCheckpoint{"checkpoint", "folder of a run, or a model.safetensors file", ""};
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
    infos.push_back({setting.name, setting.help, setting.default_text, setting.is_switch});
  }
  infos.push_back({"config", "TOML file with settings; those on the command line win", ""});
  return infos;
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
    return infos;
  }
  if (command == "bench") return bench_infos();
  if (command == "profile") {
    return {{"out", "file to write (left out: where later runs look for it)", ""}, kThreads, kIsa};
  }
  if (command == "eval") {
    return {kCheckpoint,
            {"data", "data set to evaluate on (left out: that of the training)", ""},
            {"out", "file for the JSON, or a folder for evaluation.json", ""},
            kBatch,
            kThreads,
            kIsa};
  }
  if (command == "data") {
    return {
        {"data", "data set, also without --data: a name or a folder", ""},
        {"input-size", "size that pictures are brought to, as in train", "0"},
        {"contact-sheet", "PNG file to write, with a row of training pictures for each class", ""},
        kThreads};
  }
  if (command == "statistics") {
    return {
        {"kind", "tensors to show: value, gradient, parameter, parameter-gradient, or all", "all"}};
  }
  if (command == "report") {
    return {{"out", "the HTML file to write", "report.html"},
            {"tensorboard", "folder for event files of the runs, one folder each", ""}};
  }
  if (command == "predict") {
    return {
        kCheckpoint,
        {.name = "input",
         .help = "PNG or JPEG pictures, or folders of them",
         .default_value = "",
         .is_list = true},
        {"data", "data set whose test examples --index names (left out: that of the training)", ""},
        {"index", "test examples: 7, or 0-9", "0"},
        {"csv", "file to write the predictions to as CSV (-: standard output)", ""},
        kThreads,
        kIsa};
  }
  return {};
}

namespace {

// The configuration file that a command names; for --resume without one, that of the run itself.
Result<std::string> config_path(const Settings& settings) {
  if (const auto named = settings.find("config"); named != settings.end()) return named->second;
  const auto resume = settings.find("resume"), out = settings.find("out");
  if (resume == settings.end() || resume->second != "true" || out == settings.end()) {
    return std::string();
  }
  const std::string path = (std::filesystem::path(out->second) / "config.toml").string();
  MANTISSA_ASSIGN(const bool there, is_there(path));
  return there ? path : std::string();
}

// Settings without which others mean nothing, or nothing that can be.
bool is_base_of_others(const std::string& name) {
  return name == "optimizer" || name == "lr-schedule" || name == "validation" ||
         name == "batch-size";
}

// What a file says for one optimizer or schedule does not fit another that the command line names.
void drop_settings_of_others(const Settings& settings, Settings& file) {
  const auto changes = [&](const char* name, std::string_view left_out) {
    const auto now = settings.find(name);
    const auto before = file.find(name);
    return now != settings.end() &&
           now->second != (before == file.end() ? left_out : before->second);
  };
  const RunConfig defaults;
  const bool optimizer_changes = changes("optimizer", optimizer_name(defaults.optimizer));
  const bool schedule_changes = changes("lr-schedule", schedule_name(defaults.schedule));
  std::erase_if(file, [&](const auto& item) {
    const std::string& name = item.first;
    return (optimizer_changes &&
            (is_optimizer_setting(name) || name == "learning-rate" || name == "weight-decay")) ||
           (schedule_changes && name.starts_with("plateau-"));
  });
}

}  // namespace

Result<RunConfig> training_config(const Settings& settings) {
  Settings merged;
  if (settings.count("epochs") > 0 && settings.count("steps") > 0) {
    return invalid_input("--epochs and --steps exclude each other");
  }
  MANTISSA_ASSIGN(const std::string path, config_path(settings));
  if (!path.empty()) {
    MANTISSA_ASSIGN(merged, read_config(path));
    // Either of the two overrides the other in the file.
    if (settings.count("epochs") > 0) merged.erase("steps");
    if (settings.count("steps") > 0) merged.erase("epochs");
    drop_settings_of_others(settings, merged);
    // What of the file is not overridden must be right on its own, so that its errors name it.
    Settings rest = merged;
    std::erase_if(rest, [&](const auto& item) {
      return settings.count(item.first) > 0 && !is_base_of_others(item.first);
    });
    Result<RunConfig> alone = make_run_config(rest);
    if (!alone.ok()) {
      alone.error().message = path + ": " + alone.error().message;
      return alone.error();
    }
  }
  for (const auto& [name, text] : settings) {
    if (name != "config") merged[name] = text;
  }
  return make_run_config(merged);
}

namespace {

Status check_known(const std::string& command, const Settings& settings) {
  const std::vector<SettingInfo> known = settings_of(command);
  for (const auto& [name, text] : settings) {
    const bool found = std::any_of(known.begin(), known.end(),
                                   [&name = name](const auto& info) { return info.name == name; });
    if (!found) return invalid_input("unknown setting '" + name + "' of " + command);
  }
  return {};
}

}  // namespace

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
  config.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  MANTISSA_RETURN_IF_ERROR(check_known(command, settings));
  for (const auto& [name, text] : settings) {
    MANTISSA_RETURN_IF_ERROR(set(name, text, config));
  }
  if (!config.input.empty() && (settings.count("index") > 0 || settings.count("data") > 0)) {
    return invalid_input("give either --input, or --data and --index");
  }
  if (config.checkpoint.empty()) {
    return invalid_input("--checkpoint: name the folder of a run, or a model.safetensors file");
  }
  MANTISSA_ASSIGN(const PathKind kind, path_kind(config.checkpoint));
  if (kind == PathKind::kFolder) {
    config.checkpoint = (std::filesystem::path(config.checkpoint) / "model.safetensors").string();
  }
  return config;
}

}  // namespace mantissa
