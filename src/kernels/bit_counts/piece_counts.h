// Counts of a block's large mantissas that are taken as its pieces are written, while each is still
// in the cache of the core that wrote it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/bit_counts/bit_counts.h"
#include "kernels/common/parallel_ranges.h"

namespace mantissa::kernels {

// Which mantissas are counted; others count as zero.
enum class Counted : uint8_t { kAll, kPositive };

class PieceCounts {
 public:
  // Pieces about as large as this stay in the cache until they are counted.
  static constexpr int64_t kPieceBytes = 65536;

  // For workers 0..workers - 1, at most kMaximumParts.
  PieceCounts(const BitCountKernels& kernel, int64_t workers, Counted counted = Counted::kAll)
      : kernel_(kernel), workers_(workers), counted_(counted) {
    std::fill_n(parts_.begin(), workers, Part{});
  }

  // Counts `count` mantissas that `worker` has written for good. Workers count at the same time.
  void add(ConstMantissaSpan mantissas, int64_t count, int64_t worker) noexcept {
    Part& part = parts_[static_cast<size_t>(worker)];
    if (counted_ == Counted::kAll) {
      kernel_.count_large(mantissas, 0, count, part.large);
    } else {
      add_positive(mantissas, count, part.large);
    }
    part.elements += count;
  }

  // The number of counted mantissas, and their counts.
  int64_t elements() const {
    int64_t sum = 0;
    for (int64_t worker = 0; worker < workers_; ++worker) sum += of(worker).elements;
    return sum;
  }
  LargeCounts large() const {
    LargeCounts sum = {};
    for (int64_t worker = 0; worker < workers_; ++worker) {
      for (size_t k = 0; k < sum.size(); ++k) sum[k] += of(worker).large[k];
    }
    return sum;
  }

 private:
  struct alignas(64) Part {  // cache lines of their own
    LargeCounts large;
    int64_t elements;
  };
  void add_positive(ConstMantissaSpan mantissas, int64_t count, LargeCounts& large) const noexcept {
    with_wide_gradient_type(mantissas.bits, [&](auto type) {
      std::array<decltype(type), 4096> positive;
      for (int64_t at = 0; at < count; at += std::ssize(positive)) {
        const int64_t length = std::min(count - at, std::ssize(positive));
        const auto* from = mantissas.as<decltype(type)>() + at;
        for (int64_t i = 0; i < length; ++i) positive[i] = std::max<decltype(type)>(from[i], 0);
        kernel_.count_large({positive.data(), mantissas.bits}, 0, length, large);
      }
    });
  }
  const Part& of(int64_t worker) const { return parts_[static_cast<size_t>(worker)]; }

  const BitCountKernels& kernel_;
  int64_t workers_;
  Counted counted_;
  std::array<Part, kMaximumParts> parts_;
};

}  // namespace mantissa::kernels
