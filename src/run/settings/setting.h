// Settings as rows of a table. From the same rows come the lists of --help, the reading of command
// lines and files, and the files themselves.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/real_text.h"
#include "base/result.h"
#include "base/system/thread_pool.h"

namespace mantissa {

// The form of a setting; the themes that it belongs to; and, for a setting of training, the other
// commands and the files that have it, too. Bits of `SettingOf::traits`.
namespace traits {
inline constexpr uint32_t kSwitch = 1 << 0;     // true or false: takes no value in a command
inline constexpr uint32_t kList = 1 << 1;       // may have several values; one a line
inline constexpr uint32_t kIdentity = 1 << 2;   // another value may give other bits
inline constexpr uint32_t kIfGiven = 1 << 3;    // came later: runs without it keep their identity
inline constexpr uint32_t kOfBuiltIn = 1 << 4;  // how a built-in network is built
inline constexpr uint32_t kOfImports = 1 << 5;  // how an ONNX model is imported
inline constexpr uint32_t kOfSource = 1 << 6;   // the network, or where it comes from
inline constexpr uint32_t kOfPredictions = 1 << 7;  // concerns predictions alone, too
inline constexpr uint32_t kInPlan = 1 << 8;
inline constexpr uint32_t kInBench = 1 << 9;
inline constexpr uint32_t kInQuantize = 1 << 10;
inline constexpr uint32_t kInTrainer = 1 << 11;  // Trainer::create
inline constexpr uint32_t kInData = 1 << 12;
inline constexpr uint32_t kInImport = 1 << 13;
inline constexpr uint32_t kInInfo = 1 << 14;
inline constexpr uint32_t kInFile = 1 << 15;  // config.toml
// The data that it is for; of other data it must keep its default.
inline constexpr uint32_t kForPictures = 1 << 16;
inline constexpr uint32_t kForTables = 1 << 17;
inline constexpr uint32_t kForClasses = 1 << 18;  // not of texts without labels
inline constexpr uint32_t kForArrays = 1 << 19;   // of positions, or of pictures of numbers
}  // namespace traits

template <typename Config>
struct SettingOf {
  const char* name;
  const char* help = "";
  const char* default_text = "";
  // Sets the fields. Errors may begin with the name, or have the fault of the text alone. Null: the
  // row of training reads it.
  Status (*parse)(const std::string& name, const std::string& text, Config& config) = nullptr;
  uint32_t traits = 0;
  // The value as text; "" if it means nothing here. Null: no file has it.
  std::string (*print)(const Config& config) = nullptr;

  bool has(uint32_t trait) const { return (traits & trait) != 0; }
  std::string text(const Config& config) const { return print == nullptr ? "" : print(config); }
};

// Parses a whole number or a finite real number, all of the text.
Result<int64_t> parse_integer(const std::string& name, const std::string& text, int64_t low,
                              int64_t high);
Result<double> parse_real(const std::string& name, const std::string& text, double low,
                          double high);

template <typename T, typename Field>
Status assign(Result<T> result, Field& field) {
  if (!result.ok()) return result.error();
  field = static_cast<Field>(std::move(*result));
  return {};
}

// Parsers and printers of a field, which is named by the members that lead to it.
template <int64_t kLow, int64_t kHigh, auto... kFields, typename Config>
Status parse_whole(const std::string& name, const std::string& text, Config& config) {
  return assign(parse_integer(name, text, kLow, kHigh), (config.*....*kFields));
}
template <auto... kFields, typename Config>
Status parse_text(const std::string&, const std::string& text, Config& config) {
  (config.*....*kFields) = text;
  return {};
}
template <auto... kFields, typename Config>
Status parse_switch(const std::string&, const std::string& text, Config& config) {
  if (text != "true" && text != "false") {
    return invalid_input("'" + text + "' is neither true nor false");
  }
  (config.*....*kFields) = text == "true";
  return {};
}
// By a function from a text to a Result.
template <auto kParse, auto... kFields, typename Config>
Status parse_by(const std::string&, const std::string& text, Config& config) {
  return assign(kParse(text), (config.*....*kFields));
}
// 0: all processors.
template <auto... kFields, typename Config>
Status parse_threads(const std::string& name, const std::string& text, Config& config) {
  MANTISSA_ASSIGN(const int64_t threads, parse_integer(name, text, 0, 256));
  (config.*....*kFields) = threads > 0 ? static_cast<int>(threads) : processors();
  return {};
}

template <auto... kFields, typename Config>
std::string print_whole(const Config& config) {
  return std::to_string((config.*....*kFields));
}
// "" for the number that stands for nothing.
template <int64_t kNothing, auto... kFields, typename Config>
std::string print_unless(const Config& config) {
  const auto value = (config.*....*kFields);
  return value == kNothing ? "" : std::to_string(value);
}
template <auto... kFields, typename Config>
std::string print_real(const Config& config) {
  return real_text((config.*....*kFields));
}
template <auto... kFields, typename Config>
std::string print_text(const Config& config) {
  return (config.*....*kFields);
}
template <auto... kFields, typename Config>
std::string print_switch(const Config& config) {
  return (config.*....*kFields) ? "true" : "false";
}
// By a function from the field to its name.
template <auto kName, auto... kFields, typename Config>
std::string print_by(const Config& config) {
  return std::string(kName((config.*....*kFields)));
}

template <typename Config>
using SettingRows = std::type_identity_t<std::span<const SettingOf<Config>>>;

// The row of this name; null: there is none.
template <typename Config>
const SettingOf<Config>* find_setting(std::span<const SettingOf<Config>> rows,
                                      std::string_view name) {
  for (const SettingOf<Config>& row : rows) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

// Errors begin with the setting's name, or its option.
template <typename Config>
Status parse_setting(const SettingOf<Config>& row, const std::string& text, Config& config) {
  Status status = row.parse(row.name, text, config);
  if (status.ok()) return status;
  const std::string begin = std::string(row.name) + ":";
  std::string& message = status.error().message;
  if (!message.starts_with(begin) && !message.starts_with("--" + begin)) {
    message = begin + " " + message;
  }
  return status;
}

// Sets the fields to the defaults of the table. A default that its own row refuses is a fault of
// the table, which the tests of each table look for.
template <typename Config>
Config default_config(SettingRows<Config> rows, Config config = {}) {
  for (const SettingOf<Config>& row : rows) {
    const bool has_default = *row.default_text != '\0' && !row.has(traits::kSwitch);
    if (row.parse != nullptr && has_default) {
      static_cast<void>(parse_setting(row, row.default_text, config));
    }
  }
  return config;
}

// Reads those of the settings that the rows read, and leaves the others.
template <typename Config>
Status take_settings(SettingRows<Config> rows, std::map<std::string, std::string>& settings,
                     Config& config) {
  for (auto setting = settings.begin(); setting != settings.end();) {
    const SettingOf<Config>* row = find_setting(rows, setting->first);
    if (row == nullptr || row->parse == nullptr) {
      ++setting;
      continue;
    }
    MANTISSA_RETURN_IF_ERROR(parse_setting(*row, setting->second, config));
    setting = settings.erase(setting);
  }
  return {};
}

}  // namespace mantissa
