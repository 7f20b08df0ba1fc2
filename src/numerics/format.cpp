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
      {"w", &Format::weight_bits, {2, 3, 4, 5, 6, 7, 8}},
      {"a", &Format::activation_bits, {2, 3, 4, 5, 6, 7, 8}},
      {"g", &Format::gradient_bits, {6, 8, 12, 16}},
      {"u", &Format::update_bits, {32}},
      {"acc", &Format::accumulator_bits, {0, 2, 4, 8, 16}},
      {"bias", &Format::bias_bits, {8, 16}},
  };
  return keys;
}

// A mode: its key, the built choices (the first is that of bfp8), and what says whether it is the
// first where there are two.
struct ModeKey {
  std::string_view key;
  std::vector<std::string_view> choices;
  bool Format::*first;
};

const std::vector<ModeKey>& mode_keys() {
  static const std::vector<ModeKey> keys = {
      {"block", {"tensor"}, nullptr},
      {"exponents", {"predicted", "exact"}, &Format::predicted},
      {"gr", {"nearest", "stochastic"}, &Format::nearest_gradients},
      {"round", {"nearest"}, nullptr},
  };
  return keys;
}

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
  for (const ModeKey& mode : mode_keys()) {
    if (key != mode.key) continue;
    std::string choices;
    for (const std::string_view choice : mode.choices) {
      if (mode.first != nullptr && value == choice) format.*mode.first = choice == mode.choices[0];
      if (value == choice) return {};
      choices += (choices.empty() ? "" : " or ") + std::string(choice);
    }
    return invalid_input("format: " + std::string(key) + "=" + std::string(value) +
                         " is not supported; choose " + std::string(key) + "=" + choices);
  }
  return invalid_input("format: unknown key '" + std::string(key) +
                       "'; keys are w, a, g, u, acc, bias, block, exponents, gr, round");
}

}  // namespace

Result<Format> parse_format(std::string_view text) {
  if (text == "bfp8") return Format{};
  if (text == "fp32") return Format{.fp32 = true};
  if (!text.starts_with("bfp:")) {
    return invalid_input("unknown format '" + std::string(text) +
                         "'; choose bfp8, fp32, or bfp:key=value,... (for example bfp:acc=8)");
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
  if (!format.nearest_gradients && format.gradient_bits == 16) {
    return invalid_input(
        "format: gr=stochastic rounds the 16 bits that gradients are computed to; with g=16 "
        "nothing "
        "is left to round: choose g=6, 8 or 12");
  }
  return format;
}

std::string to_string(const Format& format) {
  if (format.fp32) return "fp32";
  const Format bfp8;
  std::string keys;
  for (const WidthKey& width : width_keys()) {
    if (format.*width.field == bfp8.*width.field) continue;
    keys += (keys.empty() ? "" : ",") + std::string(width.key) + "=" +
            std::to_string(format.*width.field);
  }
  for (const ModeKey& mode : mode_keys()) {
    if (mode.first == nullptr || format.*mode.first == bfp8.*mode.first) continue;
    keys += (keys.empty() ? "" : ",") + std::string(mode.key) + "=" + std::string(mode.choices[1]);
  }
  return keys.empty() ? "bfp8" : "bfp:" + keys;
}

}  // namespace mantissa
