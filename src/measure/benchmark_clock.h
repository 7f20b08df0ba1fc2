// The clock of measurements.
#pragma once

#include <chrono>
#include <cstdint>

namespace mantissa {

// Nanoseconds since some moment; never goes back.
inline int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace mantissa
