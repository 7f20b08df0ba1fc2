// Dynamic fixed point: counts how many of a tensor's wide values need which exponent, and decides
// the exponent from that. A value needs the smallest exponent at which narrowing does not clip it.
// Source: DynamicFixed, claim 1; METHODS section 2; docs/decisions/0026.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <span>

#include "numerics/exponent.h"
#include "reference/numerics/decisions.h"

namespace mantissa {

// How many exponents below the decided one are counted separately. Elements that would fit a still
// finer one are counted with the last.
constexpr int kFinerExponents = REF_FINER_EXPONENTS;

using BitStatistics = RefBitStatistics;
// Words of a state tensor for one BitStatistics.
constexpr int64_t kBitStatisticsWords = sizeof(BitStatistics) / sizeof(int64_t);
static_assert(kBitStatisticsWords == kFinerExponents + 3);

// Counts `count` elements that need exactly the exponent `needed` in statistics about `decided`.
constexpr void count_needed(BitStatistics& statistics, int decided, int needed, int64_t count) {
  ref_count_needed(&statistics, decided, needed, count);
}

// The next exponent for b-bit mantissas (reference/numerics/decisions.h).
constexpr int next_decided_exponent(const BitStatistics& statistics, int decided, int clipped_ppm,
                                    int bits) {
  return ref_next_decided_exponent(&statistics, decided, clipped_ppm, bits);
}

// The warm-up's histogram of wide values, by the exponents that they need. It goes from the largest
// down to one below which too many are clipped: the rest is counted there. Histograms of
// micro-batches, threads and processes add up in any order.
class NeededExponents {
 public:
  // All elements of a tensor of zeros, which fit every exponent.
  void add_zeros(int64_t elements) { zeros_ += elements; }
  void add(int exponent, int64_t elements) {
    by_exponent_[static_cast<size_t>(std::clamp(exponent, kExponentMin, kExponentMax) -
                                     kExponentMin)] += elements;
  }
  NeededExponents& operator+=(const NeededExponents& other) {
    for (size_t i = 0; i < by_exponent_.size(); ++i) by_exponent_[i] += other.by_exponent_[i];
    zeros_ += other.zeros_;
    return *this;
  }
  bool operator==(const NeededExponents&) const = default;

  int64_t elements() const {
    return std::accumulate(by_exponent_.begin(), by_exponent_.end(), zeros_);
  }

  // The smallest exponent at which at most clipped_ppm millionths of the elements are clipped, for
  // b-bit mantissas: METHODS section 2, the rule. Some element is not clipped. If all are zero: the
  // exponent of a zero block.
  int decided(int clipped_ppm, int bits) const {
    return ref_decided_exponent(by_exponent_.data(), zeros_, clipped_ppm, bits);
  }

 private:
  std::array<int64_t, kExponentMax - kExponentMin + 1> by_exponent_ = {};
  int64_t zeros_ = 0;
};

// How the warm-up decides (DynamicFixed, claims 1d and 2).
struct DecisionRule {
  bool warms_up = false;  // in this step
  int clipped_ppm = 0;
  // Exponents are decided before their first use. Otherwise: a difference to the exponent in use of
  // up to the threshold waits for the next step, and a larger one runs the operation again.
  bool decides_at_once = false;
  int threshold = 0;
  int64_t micro_batches = 1;  // of a step, whose counts decide for the next step

  // The most of a step's elements that may be clipped, if a micro-batch has `elements`.
  int64_t most_clipped(int64_t elements) const {
    return ref_most_clipped(elements * micro_batches, clipped_ppm);
  }
};

// The smallest exponent at which at most clipped_ppm millionths of the elements are clipped, from a
// full histogram: by_length[n] elements with 2^(n-1) <= |x| / 2^unit < 2^n. If all are zero: the
// exponent of a zero block. Source: METHODS section 2, the rule.
inline int exponent_of_lengths(std::span<const int64_t> by_length, int unit, int clipped_ppm,
                               int bits) {
  const int64_t elements = std::accumulate(by_length.begin(), by_length.end(), int64_t{0});
  if (by_length.empty() || by_length[0] == elements) return zero_exponent(bits);
  const int64_t most = ref_most_clipped(elements, clipped_ppm);
  int64_t clipped = 0;
  size_t length = by_length.size() - 1;
  for (; length > 1; --length) {
    clipped += by_length[length];
    if (clipped > most) break;
  }
  return unit + static_cast<int>(length) - (bits - 1);
}

}  // namespace mantissa
