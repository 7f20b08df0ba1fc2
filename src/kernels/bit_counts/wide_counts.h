// How many wide values need which shift to b bits: the warm-up's histogram of dynamic fixed point,
// filled by the pass that narrows them. Source: DynamicFixed, claim 1; METHODS section 2.
//
// An exponent that clips more elements than may be clipped is ruled out for good, and smaller
// values decide nothing. So only the largest values are looked at, some in ten thousand: whoever
// narrows a tile knows its maximum, and hands its values on only if that is large enough.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "kernels/common/parallel_ranges.h"
#include "kernels/common/statistics.h"
#include "numerics/bit_statistics.h"
#include "numerics/exponent.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {

class PieceCounts;

// The counts of one worker.
class WideCounts {
 public:
  WideCounts() : WideCounts(2, 0, 0) {}
  // For values that are being narrowed to `bits` by `shift`, at most `most` of which may be
  // clipped.
  WideCounts(int bits, int shift, int64_t most)
      : bits_(bits), shift_(shift), most_(most), least_(least_clipped(0, bits)) {}

  // The smallest magnitude that still counts.
  uint64_t least() const { return least_; }
  // The smallest magnitude of a mantissa whose wide value may count: its rounded quotient is at
  // least the truncated one.
  int64_t least_written() const {
    const auto limit = static_cast<uint64_t>(mantissa_limit(bits_));
    return static_cast<int64_t>(std::min(limit, least_ >> std::min(shift_, 63)));
  }
  // Whether values that count may be among those with these statistics.
  bool wants(const WideStatistics& piece) const {
    return piece.maximum >= least_ && (piece.saturated > 0 || floor_ < shift_);
  }

  void add(uint64_t size, int64_t times = 1) {
    if (size < least_) return;
    by_shift_[static_cast<size_t>(needed_shift(size, bits_))] += times;
    above_ += times;
    while (above_ > most_) {
      above_ -= by_shift_[static_cast<size_t>(++floor_)];
      least_ = least_clipped(floor_, bits_);
    }
  }
  template <typename Wide>
  void add(const Wide* wide, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t size = magnitude(wide[i]);
      if (size >= least_) add(size);
    }
  }

  // The counts of both; no more are added to these.
  friend WideCounts operator+(WideCounts sum, const WideCounts& other) {
    sum.floor_ = std::max(sum.floor_, other.floor_);
    for (size_t i = 0; i < sum.by_shift_.size(); ++i) sum.by_shift_[i] += other.by_shift_[i];
    return sum;
  }

  // Smaller shifts than this one clip too many. Elements that need a larger one are counted.
  int floor() const { return floor_; }
  int64_t needing(int shift) const { return by_shift_[static_cast<size_t>(shift)]; }
  static constexpr int kMostShift = 64;

 private:
  int bits_, shift_;
  int64_t most_;
  uint64_t least_;
  int floor_ = 0;
  int64_t above_ = 0;  // that need more than floor_
  std::array<int64_t, kMostShift + 1> by_shift_ = {};
};

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
  for (const WideCounts& counts : workers) floor = std::max(floor, counts.floor());
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
