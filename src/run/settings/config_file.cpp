#include "run/settings/config_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "base/files/atomic_file.h"
#include "base/real_text.h"

namespace mantissa {
namespace {

constexpr int64_t kLargestConfigBytes = 1 << 20;
constexpr size_t kMostSettings = 1000;
constexpr size_t kLongestName = 100, kLongestMessage = 300;
// The library parses nested names recursively, and only dots and brackets nest: "a.a.a".
constexpr int64_t kMostNesting = 4096;
constexpr const char* kDerivedTable = "derived";

using Entries = std::map<std::string, std::string>;

// A value of a configuration file as the text that a command line would have.
std::optional<std::string> text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return real_text(number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  return std::nullopt;
}

bool nests(char c) { return c == '.' || c == '[' || c == '{'; }

Result<toml::table> parse_file(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(const auto bytes, read_file(path, kLargestConfigBytes));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (std::count_if(text.begin(), text.end(), nests) > kMostNesting) {
    return invalid_input(path.string() + ": has more than " + std::to_string(kMostNesting) +
                         " dots and brackets: no settings");
  }
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    return invalid_input(path.string() + ", line " + std::to_string(error.source().begin.line) +
                         ": " + std::string(error.description().substr(0, kLongestMessage)));
  }
}

Result<Entries> entries_of(const toml::table& table, const std::filesystem::path& path) {
  if (table.size() > kMostSettings) {
    return invalid_input(path.string() + ": has " + std::to_string(table.size()) +
                         " settings; at most " + std::to_string(kMostSettings) + " are expected");
  }
  Entries entries;
  for (const auto& [key, node] : table) {
    const auto value = text_of(node);
    const std::string name(key.str());
    if (name.size() > kLongestName) {
      return invalid_input(path.string() + ": a setting's name has " + std::to_string(name.size()) +
                           " bytes");
    }
    if (!value) {
      return invalid_input(path.string() + ": '" + name +
                           "' is neither text, a number nor true or false");
    }
    entries[name] = *value;
  }
  return entries;
}

// A line of the file. An error if it could not be read back unchanged.
Result<std::string> entry(const std::string& name, const std::string& value) {
  std::ostringstream line;
  line << name << " = "
       << toml::toml_formatter(toml::value<std::string>(value),
                               toml::format_flags::allow_unicode_strings)
       << "\n";
  try {
    if (toml::parse(line.str())[name].value<std::string>() == value) return line.str();
  } catch (const toml::parse_error&) {
    // Below.
  }
  return invalid_input(name + ": '" + value +
                       "' is not UTF-8, and config.toml can hold no other text; give it another "
                       "name, or a link to it");
}

}  // namespace

std::map<std::string, std::string> ConfigFile::all() const {
  std::map<std::string, std::string> both = settings;
  both.insert(derived.begin(), derived.end());
  return both;
}

Result<ConfigFile> read_config(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(toml::table table, parse_file(path));
  ConfigFile file;
  if (const toml::table* derived = table[kDerivedTable].as_table()) {
    MANTISSA_ASSIGN(file.derived, entries_of(*derived, path));
    table.erase(kDerivedTable);
  }
  MANTISSA_ASSIGN(file.settings, entries_of(table, path));
  // The run's own network.json and start.safetensors move with its folder.
  const auto from_here = [&](std::string& text) { text = (path.parent_path() / text).string(); };
  for (auto& [name, text] : file.settings) {
    const bool is_network = name == "model" && is_network_file(text);
    if (is_network || (name == "from" && !text.empty())) from_here(text);
  }
  return file;
}

Result<std::map<std::string, std::string>> read_entries(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(const toml::table table, parse_file(path));
  return entries_of(table, path);
}

Result<std::string> to_toml(const RunConfig& config) {
  std::string chosen =
      "# Everything needed to repeat this run: mantissa train --config config.toml\n";
  std::string derived;
  for (const Setting& setting : training_settings()) {
    const std::string name = setting.name, value = setting.text(config);
    if (value.empty() || !setting.has(traits::kInFile)) continue;
    if (name == (config.steps > 0 ? "epochs" : "steps")) continue;  // only the one in force
    MANTISSA_ASSIGN(const std::string line, entry(name, value));
    const bool follows =
        std::find(config.derived.begin(), config.derived.end(), name) != config.derived.end();
    (follows ? derived : chosen) += line;
  }
  if (derived.empty()) return chosen;
  return chosen + "\n# What followed from these settings, and is used again where they stay.\n[" +
         kDerivedTable + "]\n" + derived;
}

}  // namespace mantissa
