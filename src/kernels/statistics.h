// What a pass over wide results found, and how passes over parts combine.
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

}  // namespace mantissa::kernels
