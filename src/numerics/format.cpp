#include "numerics/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
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
      {"w", &Format::weight_bits, {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
      {"a", &Format::activation_bits, {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
      {"linear", &Format::linear_bits, {8, 16}},
      {"g", &Format::gradient_bits, {6, 8, 12, 16}},
      {"gw", &Format::grad_weights_bits, {16, 32}},
      {"u", &Format::update_bits, {32}},
      {"acc", &Format::accumulator_bits, {0, 2, 4, 8, 16}},
      {"shift", &Format::second_shift, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
      {"bias", &Format::bias_bits, {8, 16}},
  };
  return keys;
}

// A mode: its key, its two choices (the first is that of bfp8), and what says whether it is the
// first.
struct ModeKey {
  std::string_view key;
  std::array<std::string_view, 2> choices;
  bool Format::*first;
};

const std::vector<ModeKey>& mode_keys() {
  static const std::vector<ModeKey> keys = {
      {"unsigned", {"no", "yes"}, &Format::sign_bits},
      {"block", {"tensor", "channel"}, &Format::tensor_blocks},
      {"exponents", {"predicted", "exact"}, &Format::predicted},
      {"gr", {"nearest", "stochastic"}, &Format::nearest_gradients},
      {"round", {"nearest", "stochastic"}, &Format::nearest_updates},
  };
  return keys;
}

struct Preset {
  std::string_view name;
  Format format;
};

// bfp8-text: the widths of BlockFloat's own text ([0094], [0128]; METHODS section 1).
constexpr std::array kPresets = {
    Preset{"bfp8", {}},
    Preset{"bfp8-text", {.grad_weights_bits = 32, .bias_bits = 8, .predicted = false}},
    Preset{"fp32", {.fp32 = true}}};

std::string joined(const std::vector<int>& numbers, const char* by) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : by) + std::to_string(number);
  return text;
}

std::string joined(std::span<const std::string_view> words, const char* by) {
  std::string text;
  for (const std::string_view word : words) text += (text.empty() ? "" : by) + std::string(word);
  return text;
}

std::string all_keys() {
  std::vector<std::string_view> keys;
  for (const WidthKey& width : width_keys()) keys.push_back(width.key);
  for (const ModeKey& mode : mode_keys()) keys.push_back(mode.key);
  return joined(keys, ", ");
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
                         joined(width.choices, ", "));
  }
  for (const ModeKey& mode : mode_keys()) {
    if (key != mode.key) continue;
    for (const std::string_view choice : mode.choices) {
      if (value != choice) continue;
      format.*mode.first = choice == mode.choices[0];
      return {};
    }
    return invalid_input("format: " + std::string(key) + "=" + std::string(value) +
                         " is not supported; choose " + std::string(key) + "=" +
                         joined(mode.choices, " or "));
  }
  return invalid_input("format: unknown key '" + std::string(key) + "'; keys are " + all_keys());
}

// What keys say together. A value that only repeats another's is left out: formats have one
// spelling.
Status combine_keys(Format& format) {
  if (!format.nearest_gradients && format.gradient_bits == 16) {
    return invalid_input(
        "format: gr=stochastic rounds the 16 bits that gradients are computed to; with g=16 "
        "nothing is left to round: choose g=6, 8 or 12");
  }
  if (!format.nearest_gradients && format.grad_weights_bits > 16) {
    return invalid_input(
        "format: gr=stochastic rounds 16 bits, not the 32 of gw=32: choose gw=16 or gr=nearest");
  }
  if (format.second_shift > 0 && format.second_shift >= format.accumulator_bits) {
    return invalid_input(
        "format: shift=" + std::to_string(format.second_shift) +
        " does not fit acc=" + std::to_string(format.accumulator_bits) +
        (format.accumulator_bits == 0
             ? ": without an accumulator nothing waits; leave shift out"
             : ", whose largest shift is " + std::to_string(format.accumulator_bits - 1)));
  }
  if (format.grad_weights_bits > 16 && format.most_activation_bits() > 8) {
    return invalid_input(
        "format: sums of products of 32-bit gradients (gw=32) and activations of more than 8 bits "
        "are not exact in int64: choose gw=16, or a up to 8 (7 with unsigned=yes)");
  }
  if (format.most_activation_bits() > 16) {
    return invalid_input(
        "format: unsigned=yes gives values that are never negative a+1 bits, at most 16: choose a "
        "up to 15");
  }
  if (format.linear_bits <= format.activation_bits) format.linear_bits = 0;
  if (!format.tensor_blocks &&
      std::max({format.most_activation_bits(), format.linear_bits, format.weight_bits}) > 8) {
    return invalid_input(
        "format: block=channel is for weights and values of up to 8 bits: choose block=tensor, or "
        "w and a up to 8 (a up to 7 with unsigned=yes) and linear=8");
  }
  if (format.second_shift == format.accumulator_bits - 1) format.second_shift = 0;
  if (format.grad_weights_bits <= format.gradient_bits) format.grad_weights_bits = 0;
  return {};
}

}  // namespace

Result<Format> parse_format(std::string_view text) {
  for (const Preset& preset : kPresets) {
    if (text == preset.name) return preset.format;
  }
  if (!text.starts_with("bfp:")) {
    return invalid_input(
        "unknown format '" + std::string(text) +
        "'; choose bfp8, bfp8-text, fp32, or bfp:key=value,... (for example bfp:acc=8)");
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
  MANTISSA_RETURN_IF_ERROR(combine_keys(format));
  return format;
}

std::string to_string(const Format& format) {
  for (const Preset& preset : kPresets) {
    if (format == preset.format) return std::string(preset.name);
  }
  const Format bfp8;
  std::string keys;
  for (const WidthKey& width : width_keys()) {
    if (format.*width.field == bfp8.*width.field) continue;
    keys += (keys.empty() ? "" : ",") + std::string(width.key) + "=" +
            std::to_string(format.*width.field);
  }
  for (const ModeKey& mode : mode_keys()) {
    if (format.*mode.first == bfp8.*mode.first) continue;
    keys += (keys.empty() ? "" : ",") + std::string(mode.key) + "=" + std::string(mode.choices[1]);
  }
  return "bfp:" + keys;
}

std::vector<std::string> format_choices() {
  std::vector<std::string> choices;
  for (const Preset& preset : kPresets) choices.emplace_back(preset.name);
  for (const WidthKey& width : width_keys()) {
    choices.push_back("bfp:" + std::string(width.key) + "=" + joined(width.choices, "|"));
  }
  for (const ModeKey& mode : mode_keys()) {
    choices.push_back("bfp:" + std::string(mode.key) + "=" + joined(mode.choices, "|"));
  }
  return choices;
}

}  // namespace mantissa
