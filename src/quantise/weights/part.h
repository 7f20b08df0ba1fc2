// A run of numbers that share one scale, scaled to about 1 by a power of two: then nothing
// overflows, and weights times a power of two get the same mantissas.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/real_text.h"
#include "base/result.h"
#include "quantise/linear_grid.h"

namespace mantissa::quantise {

struct Part {
  std::vector<double> numbers;  // times 2^-exponent
  MantissaRange range;
  int exponent = 0;
  bool has_nothing = true;  // every number is zero or has no mantissa of its sign

  // |number|, or 0 if the range has no mantissa of its sign.
  double size(double number) const {
    return number > 0 ? (range.hi > 0 ? number : 0) : (range.lo < 0 ? -number : 0);
  }
  double scale_of_nothing() const { return range.step == 2 ? 0x1p-126 : 1; }
};

template <typename Number>
Part part_of(std::span<const Number> numbers, const MantissaRange& range) {
  constexpr double kSmallest = 0x1p-126;
  Part part;
  part.range = range;
  double most = 0, most_size = 0;
  for (const double number : numbers) {
    most = std::max(most, std::abs(number));
    most_size = std::max(most_size, part.size(number));
  }
  part.has_nothing = most_size < kSmallest;
  std::frexp(most, &part.exponent);
  part.numbers.reserve(numbers.size());
  for (const double number : numbers) part.numbers.push_back(std::ldexp(number, -part.exponent));
  return part;
}

// Checks that numbers are finite, and below 2^128 as floats are.
template <typename Number>
Status check_numbers(std::span<const Number> numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!(std::abs(static_cast<double>(numbers[i])) < 0x1p128)) {
      return invalid_input("number " + std::to_string(i) + " of those to quantise is " +
                           real_text(numbers[i]) +
                           "; they must be finite, and below 2^128 as floats are");
    }
  }
  return {};
}

inline Status check_parts(size_t numbers, int64_t parts) {
  if (parts < 1 || numbers % static_cast<size_t>(parts) != 0) {
    return invalid_input(std::to_string(numbers) + " numbers cannot be divided into " +
                         std::to_string(parts) + " equal parts");
  }
  return {};
}

}  // namespace mantissa::quantise
