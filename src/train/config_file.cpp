#include "train/config_file.h"

#include <toml++/toml.h>

#include <array>
#include <charconv>
#include <optional>

#include "base/atomic_file.h"
#include "base/real_text.h"

namespace mantissa {
namespace {

constexpr int64_t kLargestConfigBytes = 1 << 20;

// A value of a configuration file as the text that a command line would have.
std::optional<std::string> text_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return real_text(number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  return std::nullopt;
}

}  // namespace

Result<std::map<std::string, std::string>> read_config(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(const auto bytes, read_file(path, kLargestConfigBytes));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::map<std::string, std::string> settings;
  try {
    for (const auto& [key, node] : toml::parse(text)) {
      const auto value = text_of(node);
      const std::string name(key.str());
      if (!value) {
        return invalid_input(path.string() + ": '" + name +
                             "' is neither text, a number nor true or false");
      }
      settings[name] = *value;
    }
  } catch (const toml::parse_error& error) {
    return invalid_input(path.string() + ", line " + std::to_string(error.source().begin.line) +
                         ": " + std::string(error.description()));
  }
  return settings;
}

}  // namespace mantissa
