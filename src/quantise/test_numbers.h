// Numbers as weights and activations have them, for tests.
#pragma once

#include <rapidcheck.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace mantissa::quantise {

// In [0, 1), of 53 bits.
inline double uniform_number(uint64_t seed, uint64_t index) {
  return static_cast<double>(random_bits(seed, RandomStream::kSynthetic, 7, index) >> 11) * 0x1p-53;
}

// About normal: sums of twelve uniform numbers.
inline std::vector<double> normal_numbers(size_t count, uint64_t seed) {
  std::vector<double> numbers(count, -6);
  for (size_t i = 0; i < 12 * count; ++i) numbers[i / 12] += uniform_number(seed, i);
  return numbers;
}

// Small whole numbers (ties, zeros), fractions, and of many sizes.
inline rc::Gen<double> drawn_number() {
  return rc::gen::oneOf(
      rc::gen::map(rc::gen::inRange(-9, 10), [](int n) { return n * 0.25; }),
      rc::gen::map(rc::gen::inRange(-100000, 100001), [](int n) { return n / 99999.0; }),
      rc::gen::apply([](int n, int e) { return std::ldexp(n, e); }, rc::gen::inRange(-99, 100),
                     rc::gen::inRange(-12, 3)));
}

inline std::vector<double> drawn_weights(size_t count) {
  if (*rc::gen::inRange(0, 2) == 0) return normal_numbers(count, *rc::gen::inRange(0, 1000));
  return *rc::gen::container<std::vector<double>>(count, drawn_number());
}

}  // namespace mantissa::quantise
