// How long a machine takes for a program's work. It steers the choice of values to keep, and never
// a result. Source: Recompute [0015]; METHODS section 4, tiers.
#pragma once

#include <array>
#include <cstdint>

namespace mantissa {

// A cache, or memory (the last: as large as it takes).
struct MemoryTier {
  int64_t bytes = 0;
  double bytes_per_ns = 1;  // read or written in passing, by all threads together
};

struct MachineProfile {
  std::array<MemoryTier, 3> tiers = {
      {{int64_t{1} << 21, 80}, {int64_t{1} << 25, 40}, {INT64_MAX, 20}}};
  // Memory that programs fill themselves: the first values that fit stay in it until the backward
  // pass comes back to them. Accelerators have it. CPUs do not (0 bytes): their caches hold the
  // data that was used last.
  MemoryTier on_chip = {0, 80};
  // Rates of one thread.
  double dense_macs_per_ns = 45;      // convolution and linear, forward, 8 bits
  double depthwise_macs_per_ns = 6;   // one channel per group
  double wide_macs_per_ns = 3;        // more than 8 bits
  double float_macs_per_ns = 30;      // fp32
  double norm_elements_per_ns = 1.2;  // written by batch norm
  double elements_per_ns = 1.2;       // and by other element-wise work
};

}  // namespace mantissa
