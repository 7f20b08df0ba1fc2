// Writes real numbers into a parameter of a state, as mantissas of its grid.
//
// `Numbers` gives element i by numbers(i) as a double, and a bound of all magnitudes by
// numbers.bound().
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "numerics/exponent.h"
#include "numerics/lazy_update.h"
#include "runtime/state.h"

namespace mantissa {

// The exponent that holds values up to `bound` in b bits. With 8 bits and more the largest values
// are clipped by less than a unit; with fewer bits that would be too much.
inline int initial_exponent(double bound, int bits) {
  if (bound == 0) return zero_exponent(bits);
  int exponent = 0;
  std::frexp(bound, &exponent);  // bound < 2^exponent
  exponent -= bits - 1;
  const double largest = std::ldexp(static_cast<double>(mantissa_limit(bits)) + 0.5, exponent);
  return bits < 8 && bound > largest ? exponent + 1 : exponent;
}

template <typename Numbers>
double largest_of(const Numbers& numbers, int64_t begin, int64_t end) {
  double largest = 0;
  for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(numbers(i)));
  return largest;
}

// Elements [begin, end), which share an exponent. For weights the accumulator keeps the remainder
// of rounding to W: V is the whole number.
template <typename Mantissa, typename Numbers>
void set_block(const Numbers& numbers, int bits, const WeightGrid& grid, int exponent, int shift,
               int64_t begin, int64_t end, Mantissa* weights, int16_t* accumulator) {
  const int64_t largest = mantissa_limit(bits) * (int64_t{1} << shift);
  // A power of two that is no subnormal number: products with it are the results of ldexp.
  const double scale = std::ldexp(1.0, shift - exponent);
  constexpr double kBeyondAll = 0x1p62;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t value = std::llrint(std::clamp(numbers(i) * scale, -kBeyondAll, kBeyondAll));
    const LazySplit split = grid.bits > 0 ? grid.split(value, shift)
                                          : lazy_split_rescaled(saturate(value, largest), shift);
    weights[i] = static_cast<Mantissa>(split.weight);
    if (accumulator != nullptr) accumulator[i] = static_cast<int16_t>(split.accumulator);
  }
}

// If channels have exponents of their own, none is more than `most_spread` below the largest.
template <typename Mantissa, typename Numbers>
void set_mantissas(const Numbers& numbers, int bits, bool initial_bounds, int most_spread,
                   const ParameterState& tensors, State& state) {
  auto* exponents = state.data<int16_t>(tensors.exponent);
  const int64_t blocks = state.layout().tensors[tensors.exponent].shape.count();
  const int64_t length = state.layout().tensors[tensors.mantissa].shape.count() / blocks;
  const bool by_bound = initial_bounds && blocks == 1;
  for (int64_t block = 0; block < blocks; ++block) {
    if (tensors.grid_exponent) {
      exponents[block] = static_cast<int16_t>(*tensors.grid_exponent);
      continue;
    }
    const double bound =
        by_bound ? numbers.bound() : largest_of(numbers, block * length, (block + 1) * length);
    exponents[block] =
        static_cast<int16_t>(std::clamp(initial_exponent(bound, bits), kExponentMin, kExponentMax));
  }
  const int least = *std::max_element(exponents, exponents + blocks) - most_spread;
  for (int64_t block = 0; block < blocks; ++block) {
    exponents[block] = static_cast<int16_t>(std::max<int>(exponents[block], least));
    set_block(numbers, bits, tensors.grid, exponents[block], state.layout().lazy_shift,
              block * length, (block + 1) * length, state.data<Mantissa>(tensors.mantissa),
              tensors.accumulator < 0 ? nullptr : state.data<int16_t>(tensors.accumulator));
  }
}

// Any spread of exponents, as initial weights have it.
constexpr int kAnySpread = kExponentMax - kExponentMin;

template <typename Numbers>
void set_numbers(const Numbers& numbers, int bits, bool initial_bounds,
                 const ParameterState& tensors, State& state, int most_spread = kAnySpread) {
  if (bits <= 8) {
    set_mantissas<int8_t>(numbers, bits, initial_bounds, most_spread, tensors, state);
  } else {
    set_mantissas<int16_t>(numbers, bits, initial_bounds, most_spread, tensors, state);
  }
}

}  // namespace mantissa
