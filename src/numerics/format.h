// Number formats: what --format names.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace mantissa {

// Block floating point with one exponent per tensor (BlockFloat [0012]-[0013], METHODS section 1),
// or fp32, the reference, for which the other members mean nothing.
struct Format {
  bool fp32 = false;
  int weight_bits = 8;            // w: weights
  int activation_bits = 8;        // a: activations
  int gradient_bits = 16;         // g: gradients of activations
  int update_bits = 32;           // u: weight gradients and updates
  int accumulator_bits = 16;      // acc: lazy accumulator; 0 = none
  int bias_bits = 16;             // bias: biases of linear and convolution
  bool nearest_gradients = true;  // gr: gradients rounded to nearest, or stochastically
  bool predicted = true;  // exponents: predicted, in one pass, or exact, in two; the same bits
  bool operator==(const Format&) const = default;

  // The second shift of the lazy update: accumulator_bits - 1, 0 without an accumulator.
  int lazy_shift() const { return accumulator_bits == 0 ? 0 : accumulator_bits - 1; }
  constexpr bool is_float() const { return fp32; }
};

// Parses "fp32", "bfp8", or "bfp:key=value,..." with the keys w, a, g, u, acc, block, exponents, gr
// and round (left out: as in bfp8). What cannot be combined or is not built is an error that says
// what is.
Result<Format> parse_format(std::string_view text);

// The canonical spelling: "fp32", "bfp8", or "bfp:..." with the keys that differ from it.
std::string to_string(const Format& format);

}  // namespace mantissa
