// The configuration of training: settings, and the configuration files that they name.
#include <algorithm>
#include <filesystem>

#include "api/settings/settings.h"
#include "base/files/file_system.h"
#include "run/settings/config_file.h"
#include "run/settings/derived_settings.h"
#include "run/settings/run_folder.h"

namespace mantissa {
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
  if (name == "model" || name == "from" || name == "teacher") {
    return std::filesystem::exists(text, ignored);
  }
  return name == "optimizer" || name == "lr-schedule" || name == "validation" ||
         name == "batch-size" || name == "loss";
}

// Whether the command line says other than the file.
bool changes(const std::string& name, const Settings& settings, const Settings& file) {
  const auto now = settings.find(name), before = file.find(name);
  if (now == settings.end()) return false;
  if (before != file.end()) return now->second != before->second;
  const Setting* const setting = training_setting(name);
  return setting == nullptr || now->second != setting->default_text;
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
           (has_own_network && has_trait(name, traits::kOfBuiltIn));
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

}  // namespace mantissa
