#include "numerics/format.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace mantissa {
namespace {

// One width: its key, where it is kept, and the values that are built.
struct WidthKey {
  std::string_view key;
  int Format::*field;
  std::vector<int> choices;
};

const std::vector<WidthKey>& width_keys() {
  static const std::vector<WidthKey> keys = {
      {"w", &Format::weight_bits, {8}},
      {"a", &Format::activation_bits, {8}},
      {"g", &Format::gradient_bits, {16}},
      {"u", &Format::update_bits, {32}},
      {"acc", &Format::accumulator_bits, {0, 2, 4, 8, 16}},
  };
  return keys;
}

// A mode that has one built choice so far.
struct ModeKey {
  std::string_view key;
  std::string_view choice;
};
constexpr ModeKey kModeKeys[] = {{"block", "tensor"}, {"exponents", "exact"}, {"round", "nearest"}};

std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

Status set_key(std::string_view key, std::string_view value, Format& format) {
  for (const WidthKey& width : width_keys()) {
    if (key != width.key) continue;
    int bits = -1;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), bits);
    const bool whole = error == std::errc{} && end == value.data() + value.size();
    if (whole && std::count(width.choices.begin(), width.choices.end(), bits) > 0) {
      format.*width.field = bits;
      return {};
    }
    return invalid_input("format: " + std::string(key) + "=" + std::string(value) +
                         " is not supported; choose " + std::string(key) + " from " +
                         joined(width.choices));
  }
  for (const ModeKey& mode : kModeKeys) {
    if (key != mode.key) continue;
    if (value == mode.choice) return {};
    return invalid_input("format: " + std::string(key) + "=" + std::string(value) +
                         " is not supported; choose " + std::string(key) + "=" +
                         std::string(mode.choice));
  }
  return invalid_input("format: unknown key '" + std::string(key) +
                       "'; keys are w, a, g, u, acc, block, exponents, round");
}

}  // namespace

Result<Format> parse_format(std::string_view text) {
  if (text == "bfp8") return Format{};
  if (!text.starts_with("bfp:")) {
    return invalid_input("unknown format '" + std::string(text) +
                         "'; choose bfp8, or bfp:key=value,... (for example bfp:acc=8)");
  }
  Format format;
  std::string_view rest = text.substr(4);
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) {
      return invalid_input("format: '" + std::string(item) + "' is not key=value");
    }
    MANTISSA_RETURN_IF_ERROR(set_key(item.substr(0, equals), item.substr(equals + 1), format));
  }
  return format;
}

std::string to_string(const Format& format) {
  const Format bfp8;
  std::string keys;
  for (const WidthKey& width : width_keys()) {
    if (format.*width.field == bfp8.*width.field) continue;
    keys += (keys.empty() ? "" : ",") + std::string(width.key) + "=" +
            std::to_string(format.*width.field);
  }
  return keys.empty() ? "bfp8" : "bfp:" + keys;
}

}  // namespace mantissa
