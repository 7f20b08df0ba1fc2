// Statistics of a pass over wide results or examples, and how passes over parts combine.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mantissa::kernels {

struct WideStatistics {
  uint64_t maximum = 0;   // max |wide result|, before any shift
  int64_t saturated = 0;  // results that were clipped when narrowed

  WideStatistics& operator+=(const WideStatistics& other) {
    maximum = std::max(maximum, other.maximum);
    saturated += other.saturated;
    return *this;
  }
};

// Sums over examples that a loss finds.
struct LossSums {
  int64_t loss_q24 = 0;  // of the examples' losses, in Q24
  int64_t correct = 0;   // the label has the largest logit (the first of equals)
};

}  // namespace mantissa::kernels
