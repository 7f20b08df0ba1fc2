// The range of a grid for the numbers that a layer reads, by least squares over counted numbers.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <map>

#include "tensor/tensor.h"

namespace mantissa {

// How often each mantissa of 8 bits occurs at each exponent: exact, and of a size that does not
// grow with the examples. Of 16 bits the upper 8 are counted.
class ActivationCounts {
 public:
  void add(const Tensor& values);
  // Calls visit(number, times) for all numbers that occur.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [exponent, counts] : by_exponent_) {
      for (int q = -128; q < 128; ++q) {
        const int64_t times = counts[static_cast<size_t>(q + 128)];
        if (times > 0) visit(std::ldexp(q, exponent), times);
      }
    }
  }

 private:
  std::map<int, std::array<int64_t, 256>> by_exponent_;
};

struct ActivationGrid {
  double range = 1;  // numbers beyond are clipped: levels steps
  int64_t levels = 0;
  bool is_signed = false;
  double relative_error = 0;
};

// The range with the least squared error, signed where some number is negative, with steps that are
// powers of two unless `any_step`. `levels` is 0 where so few bits have no sign.
ActivationGrid least_squares_range(const ActivationCounts& counts, int bits, bool any_step);

}  // namespace mantissa
