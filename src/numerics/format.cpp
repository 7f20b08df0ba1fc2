#include "numerics/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <vector>

namespace mantissa {
namespace {

// One width: its key, its member, and the values that are built.
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
      {"u", &Format::update_bits, {16, 32}},
      {"acc", &Format::accumulator_bits, {0, 2, 4, 8, 16}},
      {"shift", &Format::second_shift, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
      {"bias", &Format::bias_bits, {8, 16}},
      {"ends", &Format::end_bits, {8}},
  };
  return keys;
}

// A mode: its key, its two choices (the first is bfp8's), and the flag for the first.
struct ModeKey {
  std::string_view key;
  std::array<std::string_view, 2> choices;
  bool Format::*first;
};

const std::vector<ModeKey>& mode_keys() {
  static const std::vector<ModeKey> keys = {
      {"unsigned", {"no", "yes"}, &Format::sign_bits},
      {"block", {"tensor", "channel"}, &Format::tensor_blocks},
      {"blocks", {"tensor", "token"}, &Format::tensor_values},
      {"exponents", {"predicted", "exact"}, &Format::predicted},
      {"ge", {"headroom", "exact"}, &Format::headroom},
      {"we", {"bound", "exact"}, &Format::initial_bounds},
      {"gr", {"nearest", "stochastic"}, &Format::nearest_gradients},
      {"round", {"nearest", "stochastic"}, &Format::nearest_updates},
      {"inversion", {"no", "yes"}, &Format::keeps_norm_inputs},
      {"ties", {"even", "up"}, &Format::even_ties},
  };
  return keys;
}

// A whole number of dynamic fixed point: its key, its member, and its range.
struct NumberKey {
  std::string_view key;
  int Format::*field;
  int smallest, largest;
};

constexpr int kMostSteps = 1'000'000'000;
constexpr std::array kNumberKeys = {NumberKey{"threshold", &Format::threshold, 0, 255},
                                    NumberKey{"warmup", &Format::warm_up_steps, 0, kMostSteps},
                                    NumberKey{"every", &Format::decision_steps, 1, kMostSteps},
                                    NumberKey{"start", &Format::start_exponent, -100, 100}};

// The part that may be clipped, as a decimal fraction.
constexpr std::string_view kClippedKey = "r_max";
constexpr int kMostClippedPpm = 100'000;

const std::vector<ModeKey>& dynamic_mode_keys() {
  static const std::vector<ModeKey> keys = {
      {"decide", {"op", "pass"}, &Format::decides_by_op},
      {"pretraining", {"fixed", "float"}, &Format::fixed_pretraining},
  };
  return keys;
}

// A family with keys: the start of its formats' names, and the format for keys that are left out.
struct Family {
  std::string_view prefix;
  Format plain;
};
constexpr std::array kFamilies = {Family{"bfp:", {}},
                                  Family{"dfp:", {.family = FormatFamily::kDynamic}}};

struct Preset {
  std::string_view name;
  Format format;
};

// bfp8-text: BlockFloat's own setting ([0013], [0085], [0094], [0112]-[0121], [0128], [0135];
// METHODS section 1).
constexpr std::array kPresets = {Preset{"bfp8", {}},
                                 Preset{"bfp8-text",
                                        {.grad_weights_bits = 32,
                                         .update_bits = 32,
                                         .bias_bits = 8,
                                         .headroom = false,
                                         .initial_bounds = false,
                                         .predicted = false}},
                                 Preset{"bfp8-portable", {.weight_bits = 7, .even_ties = false}},
                                 Preset{"dfp8", {.family = FormatFamily::kDynamic}},
                                 Preset{"fp32", {.family = FormatFamily::kFloat}}};

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

std::string all_keys(const Format& format) {
  std::vector<std::string_view> keys;
  for (const WidthKey& width : width_keys()) keys.push_back(width.key);
  for (const ModeKey& mode : mode_keys()) keys.push_back(mode.key);
  if (format.is_dynamic()) {
    for (const NumberKey& number : kNumberKeys) keys.push_back(number.key);
    keys.push_back(kClippedKey);
    for (const ModeKey& mode : dynamic_mode_keys()) keys.push_back(mode.key);
  }
  return joined(keys, ", ");
}

// Millionths as the shortest decimal fraction.
std::string fraction_text(int ppm) {
  std::string text = "0." + std::to_string(1'000'000 + ppm).substr(1);
  while (text.back() == '0') text.pop_back();
  return text.back() == '.' ? "0" : text;
}

template <typename Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

Error out_of_range(std::string_view key, std::string_view value, const std::string& range) {
  return invalid_input("format: " + std::string(key) + "=" + std::string(value) +
                       " is not supported; " + std::string(key) + " is " + range);
}

// Sets the key if it is one of these modes'; false if it is not.
Result<bool> set_mode(std::span<const ModeKey> modes, std::string_view key, std::string_view value,
                      Format& format) {
  for (const ModeKey& mode : modes) {
    if (key != mode.key) continue;
    for (const std::string_view choice : mode.choices) {
      if (value != choice) continue;
      format.*mode.first = choice == mode.choices[0];
      return true;
    }
    return invalid_input("format: " + std::string(key) + "=" + std::string(value) +
                         " is not supported; choose " + std::string(key) + "=" +
                         joined(mode.choices, " or "));
  }
  return false;
}

// Sets a key that only dynamic fixed point has; false if it is not one.
Result<bool> set_dynamic_key(std::string_view key, std::string_view value, Format& format) {
  for (const NumberKey& number : kNumberKeys) {
    if (key != number.key) continue;
    int read = 0;
    if (!read_number(value, read) || read < number.smallest || read > number.largest) {
      return out_of_range(key, value,
                          "a whole number from " + std::to_string(number.smallest) + " to " +
                              std::to_string(number.largest));
    }
    format.*number.field = read;
    return true;
  }
  if (key != kClippedKey) return set_mode(dynamic_mode_keys(), key, value, format);
  double part = -1;
  const bool is_number = read_number(value, part);
  const double ppm = std::nearbyint(part * 1e6);
  if (!is_number || !(std::abs(part * 1e6 - ppm) < 1e-6) || (ppm == 0 && part != 0) || ppm < 0 ||
      ppm > kMostClippedPpm) {
    return out_of_range(key, value, "a multiple of 1e-6 from 0 to 0.1, such as 1e-4");
  }
  format.clipped_ppm = static_cast<int>(ppm);
  return true;
}

Status set_key(std::string_view key, std::string_view value, Format& format) {
  for (const WidthKey& width : width_keys()) {
    if (key != width.key) continue;
    int bits = -1;
    if (read_number(value, bits) &&
        std::count(width.choices.begin(), width.choices.end(), bits) > 0) {
      format.*width.field = bits;
      return {};
    }
    return invalid_input("format: " + std::string(key) + "=" + std::string(value) +
                         " is not supported; choose " + std::string(key) + " from " +
                         joined(width.choices, ", "));
  }
  MANTISSA_ASSIGN(const bool is_mode, set_mode(mode_keys(), key, value, format));
  if (is_mode) return {};
  if (format.is_dynamic()) {
    MANTISSA_ASSIGN(const bool known, set_dynamic_key(key, value, format));
    if (known) return {};
  }
  return invalid_input("format: unknown key '" + std::string(key) + "'; keys are " +
                       all_keys(format));
}

// Refuses keys that dynamic fixed point does not have.
Status check_dynamic(const Format& format) {
  if (!format.predicted) {
    return invalid_input(
        "format: exponents=exact is a choice of block floating point; dynamic fixed point decides "
        "exponents before: leave exponents out, or choose bfp:exponents=exact");
  }
  if (!format.headroom) {
    return invalid_input(
        "format: ge=exact is a choice of block floating point; dynamic fixed point decides "
        "exponents before: leave ge out, or choose bfp:ge=exact");
  }
  if (!format.tensor_blocks) {
    return invalid_input(
        "format: dynamic fixed point decides one exponent per tensor: leave block=channel out, or "
        "choose bfp:block=channel");
  }
  if (!format.tensor_values) {
    return invalid_input(
        "format: dynamic fixed point decides one exponent per tensor: leave blocks=token out, or "
        "choose bfp:blocks=token");
  }
  if (!format.fixed_pretraining && format.warm_up_steps == 0) {
    return invalid_input(
        "format: pretraining=float takes the exponents from warmup steps in fp32: with warmup=0 "
        "there are none; choose warmup from 1, or leave pretraining out");
  }
  if (!format.fixed_pretraining && !format.keeps_norm_inputs) {
    return invalid_input(
        "format: inversion=yes inverts batch norm in integers, pretraining=float begins in fp32: "
        "leave one of them out");
  }
  if (!format.fixed_pretraining && !format.decides_by_op) {
    return invalid_input(
        "format: decide=pass decides in the passes of the warm-up, and pretraining=float has none: "
        "leave one of them out");
  }
  if (!format.decides_by_op && format.threshold != Format{}.threshold) {
    return invalid_input(
        "format: decide=pass decides exponents before they are used, and has no threshold: leave "
        "threshold out, or choose decide=op");
  }
  return {};
}

// Settles keys that depend on each other. A value that only repeats another's is left out: one
// spelling for each format.
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
  if (format.grad_weights_bits > 16 && !format.tensor_values) {
    return invalid_input(
        "format: blocks=token sums products of gradients and rows of 16 bits, which are not exact "
        "in int64 with gradients of 32 (gw=32): choose gw=16, or blocks=tensor");
  }
  if (format.most_activation_bits() > 16) {
    return invalid_input(
        "format: unsigned=yes gives values that are never negative a+1 bits, at most 16: choose a "
        "up to 15");
  }
  constexpr int kFewestBitsToInvert = 6;
  if (!format.keeps_norm_inputs && format.activation_bits < kFewestBitsToInvert) {
    return invalid_input(
        "format: activations of fewer than 6 bits do not tell what batch norm normalised: leave "
        "inversion=yes out, or choose a from 6");
  }
  if (!format.even_ties &&
      (std::max(format.weight_bits, format.end_bits) > 7 ||
       std::max(format.most_activation_bits(), format.linear_bits) > 8 || !format.tensor_values)) {
    return invalid_input(
        "format: ties=up is for weights of up to 7 bits and values of up to 8 with one exponent: "
        "choose w=7 or less, a up to 8 (a up to 7 with unsigned=yes), linear=8, blocks=tensor, and "
        "leave ends out");
  }
  if (format.is_dynamic()) MANTISSA_RETURN_IF_ERROR(check_dynamic(format));
  if (format.linear_bits <= format.activation_bits) format.linear_bits = 0;
  if (format.end_bits <= std::min(format.weight_bits, format.activation_bits)) format.end_bits = 0;
  if (!format.tensor_blocks && format.tensor_values &&
      std::max({format.most_activation_bits(), format.linear_bits, format.weight_bits}) > 8) {
    return invalid_input(
        "format: block=channel is for weights and values of up to 8 bits: choose block=tensor, or "
        "w and a up to 8 (a up to 7 with unsigned=yes) and linear=8");
  }
  if (!format.tensor_values && std::max(format.weight_bits, format.end_bits) > 8) {
    return invalid_input(
        "format: blocks=token is for weights of up to 8 bits: choose blocks=tensor, or w up to 8");
  }
  if (format.second_shift == format.accumulator_bits - 1) format.second_shift = 0;
  if (format.grad_weights_bits <= format.gradient_bits) format.grad_weights_bits = 0;
  // Channels, and weights that come from fp32, have the exponents of their own maxima anyway.
  if (!format.tensor_blocks || !format.fixed_pretraining) format.initial_bounds = true;
  return {};
}

}  // namespace

Result<Format> parse_format(std::string_view text) {
  for (const Preset& preset : kPresets) {
    if (text == preset.name) return preset.format;
  }
  const auto* family = std::find_if(kFamilies.begin(), kFamilies.end(),
                                    [&](const Family& f) { return text.starts_with(f.prefix); });
  if (family == kFamilies.end()) {
    return invalid_input(
        "unknown format '" + std::string(text) +
        "'; choose bfp8, bfp8-text, bfp8-portable, dfp8, fp32, bfp:key=value,... or "
        "dfp:key=value,... (for example bfp:acc=8)");
  }
  Format format = family->plain;
  std::string_view rest = text.substr(family->prefix.size());
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
  const Family& family = kFamilies[format.is_dynamic() ? 1 : 0];
  const Format& plain = family.plain;
  std::string keys;
  const auto add = [&](std::string_view key, std::string_view value) {
    keys += (keys.empty() ? "" : ",") + std::string(key) + "=" + std::string(value);
  };
  for (const WidthKey& width : width_keys()) {
    if (format.*width.field == plain.*width.field) continue;
    add(width.key, std::to_string(format.*width.field));
  }
  for (const ModeKey& mode : mode_keys()) {
    if (format.*mode.first != plain.*mode.first) add(mode.key, mode.choices[1]);
  }
  for (const NumberKey& number : kNumberKeys) {
    if (format.*number.field == plain.*number.field) continue;
    add(number.key, std::to_string(format.*number.field));
  }
  if (format.clipped_ppm != plain.clipped_ppm) add(kClippedKey, fraction_text(format.clipped_ppm));
  for (const ModeKey& mode : dynamic_mode_keys()) {
    if (format.*mode.first != plain.*mode.first) add(mode.key, mode.choices[1]);
  }
  return std::string(family.prefix) + keys;
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
  for (const NumberKey& number : kNumberKeys) {
    choices.push_back("dfp:" + std::string(number.key) + "=" + std::to_string(number.smallest) +
                      ".." + std::to_string(number.largest));
  }
  choices.push_back("dfp:" + std::string(kClippedKey) + "=0..0.1");
  for (const ModeKey& mode : dynamic_mode_keys()) {
    choices.push_back("dfp:" + std::string(mode.key) + "=" + joined(mode.choices, "|"));
  }
  return choices;
}

}  // namespace mantissa
