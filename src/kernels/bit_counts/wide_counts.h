// Counts of wide values by the shifts that they need (reference/numerics/wide_counts.h), of all
// workers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "kernels/common/parallel_ranges.h"
#include "numerics/bit_statistics.h"
#include "reference/numerics/wide_counts.h"

namespace mantissa::kernels {

class PieceCounts;

using WideCounts = RefWideCounts;

// The counts of all workers. Allocates nothing for up to kMaximumParts of them.
class WorkerCounts {
 public:
  WorkerCounts(int workers, const WideCounts& empty)
      : counts_(static_cast<size_t>(workers), empty, &memory_) {}
  WideCounts* data() { return counts_.data(); }
  std::span<const WideCounts> all() const { return counts_; }

 private:
  alignas(WideCounts) std::array<std::byte, kMaximumParts * sizeof(WideCounts)> room_;
  std::pmr::monotonic_buffer_resource memory_{room_.data(), room_.size()};
  std::pmr::vector<WideCounts> counts_;
};

// The histogram of `elements` values of 2^wide_exponent from the counts of all workers. None needs
// more than the exponent `largest`. Those that were not looked at stand where they decide nothing.
inline NeededExponents needed_exponents(std::span<const WideCounts> workers, int64_t elements,
                                        int wide_exponent, int largest) {
  NeededExponents needed;
  int floor = 0;
  for (const WideCounts& counts : workers) floor = std::max(floor, counts.floor);
  const auto add = [&](int shift, int64_t count) {
    needed.add(std::min(wide_exponent + shift, largest), count);
    elements -= count;
  };
  for (const WideCounts& counts : workers) {
    for (int shift = floor + 1; shift <= WideCounts::kMostShift; ++shift) {
      add(shift, counts.needing(shift));
    }
  }
  add(floor, elements);
  return needed;
}

// The counts of a pass: the mantissas that it writes, each piece once it is final; in the warm-up
// its wide values; or nothing.
struct PassCounts {
  PieceCounts* written = nullptr;
  WideCounts* wide = nullptr;  // one for each worker

  WideCounts* wide_of(int64_t worker) const { return wide == nullptr ? nullptr : wide + worker; }
};

}  // namespace mantissa::kernels
