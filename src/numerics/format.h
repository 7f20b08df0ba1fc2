// Number formats: the values of --format.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mantissa {

enum class FormatFamily : uint8_t {
  kBlock,    // block floating point: a block's exponent follows from its own maximum, or a guess
  kDynamic,  // dynamic fixed point: exponents are decided before, from the statistics of bits
  kFloat,    // fp32, the reference
};

// Block floating point with one exponent per tensor, or per output channel of a weight tensor
// (BlockFloat [0012]-[0013], METHODS section 1); dynamic fixed point, with the same widths
// (DynamicFixed, METHODS section 2); or fp32, whose other members have their defaults and
// mean nothing.
struct Format {
  FormatFamily family = FormatFamily::kBlock;
  int weight_bits = 8;        // w: weights
  int activation_bits = 8;    // a: activations
  int gradient_bits = 16;     // g: gradients of activations
  int grad_weights_bits = 0;  // gw: gradients that grad_weights reads, between layers; 0 = as g
  int update_bits = 16;       // u: updates that momentum keeps, the velocity
  int accumulator_bits = 16;  // acc: lazy accumulator; 0 = none
  int second_shift = 0;       // shift: of the lazy update; 0 = accumulator_bits - 1
  int linear_bits = 0;        // linear: results of linear and convolution; 0 = as a
  int bias_bits = 16;         // bias: biases of linear and convolution
  int end_bits = 0;  // ends: weights and inputs of the first and the last layers; 0 = as w and a
  bool sign_bits = true;      // unsigned: values without negatives keep a sign's bit, or not
  bool tensor_blocks = true;  // block: a weight tensor has one exponent, or each output channel
  bool tensor_values = true;  // blocks: a value has one exponent, or each of its rows (tokens)
  // ge: exponents of gradients: from the step before plus one bit of headroom, or from their own
  // maximum.
  bool headroom = true;
  // we: exponents of initial weights: from the largest that the initialiser may give, or from their
  // own maximum.
  bool initial_bounds = true;
  bool nearest_gradients = true;  // gr: gradients rounded to nearest, or stochastically
  bool nearest_updates = true;    // round: updates rounded to nearest, or stochastically
  bool predicted = true;  // exponents: predicted, in one pass, or exact, in two; the same bits
  // inversion: batch norm's backward pass reads its input; or, if that saves something, its output,
  // which it inverts.
  bool keeps_norm_inputs = true;
  // ties: how values are rounded that lie between two mantissas: to the even one; or up, and the
  // frozen network has the tie-free form (0138).
  bool even_ties = true;
  // Dynamic fixed point only.
  // threshold: in the warm-up, larger differences of exponents run an operation again.
  int threshold = 1;
  int clipped_ppm = 100;    // r_max, in millionths: how many elements may be clipped
  int warm_up_steps = 20;   // warmup: steps in which exponents are decided at once
  int decision_steps = 1;   // every: steps between decisions, after the warm-up
  int start_exponent = -8;  // start: of all tensors, before the first step
  // decide: in the warm-up, after an operation, which runs again if its exponent moved; or layer by
  // layer in the passes, before an exponent is used first.
  bool decides_by_op = true;
  // pretraining: the warm-up is in this format; or it takes place before, in fp32, and gives the
  // exponents (DynamicFixed's comparative example).
  bool fixed_pretraining = true;
  bool operator==(const Format&) const = default;

  // The second shift of the lazy update; 0 without an accumulator.
  int lazy_shift() const {
    return accumulator_bits == 0 ? 0 : second_shift == 0 ? accumulator_bits - 1 : second_shift;
  }
  // Bits of gradients between two layers, read by grad_weights.
  int wide_gradient_bits() const { return std::max(grad_weights_bits, gradient_bits); }
  // Whether each row of a value has an exponent of its own.
  constexpr bool has_row_exponents() const { return !tensor_values; }
  // Whether results of linear and convolution have a width of their own, linear_bits.
  bool has_linear_values() const { return linear_bits != 0; }
  // Most bits of an activation.
  int most_activation_bits() const { return activation_bits + (sign_bits ? 0 : 1); }
  // Steps of the warm-up in this format.
  constexpr int deciding_steps() const {
    return is_dynamic() && fixed_pretraining ? warm_up_steps : 0;
  }
  // Steps in fp32 before the first.
  constexpr int float_steps() const {
    return is_dynamic() && !fixed_pretraining ? warm_up_steps : 0;
  }
  constexpr bool is_float() const { return family == FormatFamily::kFloat; }
  constexpr bool is_dynamic() const { return family == FormatFamily::kDynamic; }
};

// Parses a preset ("bfp8", "bfp8-text", "dfp8", "fp32"), or "bfp:key=value,..." or
// "dfp:key=value,..." with the keys of docs/formats.md (left out: as in bfp8 or dfp8). Errors for
// combinations that are impossible or not built say what is possible.
Result<Format> parse_format(std::string_view text);

// The canonical spelling: a preset, or "bfp:..." or "dfp:..." with the keys that differ from its
// preset.
std::string to_string(const Format& format);

// All formats, for people: "bfp8", ..., "bfp:g=6|8|12|16", ...
std::vector<std::string> format_choices();

}  // namespace mantissa
