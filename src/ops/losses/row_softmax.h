// The softmax of one row of logits, a number at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "numerics/exponential.h"
#include "reference/numerics/numerics.h"

namespace mantissa::ops {

constexpr int64_t kUnitQ16 = int64_t{1} << 16;

// Of logits mantissa * 2^exponent that are divided by a temperature.
class RowSoftmax {
 public:
  RowSoftmax() = default;
  RowSoftmax(const int32_t* logits, int64_t classes, int exponent,
             int64_t temperature_q16 = kUnitQ16)
      : logits_(logits),
        largest_(*std::max_element(logits, logits + classes)),
        temperature_(temperature_q16),
        exponent_(exponent) {
    for (int64_t k = 0; k < classes; ++k) sum_ += exp2_q30(log2_q16(k));
    log2_sum_ = log2_q24(static_cast<uint64_t>(sum_)) - (int64_t{30} << 24);
  }
  int64_t probability_q30(int64_t k) const {
    return ((exp2_q30(log2_q16(k)) << 30) + sum_ / 2) / sum_;
  }
  // -log2 of the probability.
  int64_t lost_q24(int64_t k) const { return std::min(log2_sum_ - log2_q16(k) * 256, kMostLost); }

 private:
  static constexpr int64_t kMostLost = int64_t{1} << 44;

  int64_t log2_q16(int64_t k) const {
    const int64_t whole = natural_to_log2_q16(int64_t{logits_[k]} - largest_, exponent_);
    return temperature_ == kUnitQ16 ? whole : ref_divide_rne(whole * kUnitQ16, temperature_);
  }

  const int32_t* logits_ = nullptr;
  int64_t largest_ = 0, temperature_ = kUnitQ16;
  int exponent_ = 0;
  int64_t sum_ = 0, log2_sum_ = 0;
};

}  // namespace mantissa::ops
