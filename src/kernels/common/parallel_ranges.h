// Splitting [0, count) over a pool's threads.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "base/checked.h"
#include "base/system/thread_pool.h"
#include "kernels/common/statistics.h"

namespace mantissa::kernels {

// Elements, or bytes of copies, below which a thread is not worth waking.
constexpr int64_t kElementsPerThread = 16 * 1024;
constexpr int64_t kBytesPerThread = 16 * 1024;

// Most parts that a range is split into; bounds the partial results kept on the stack.
constexpr int64_t kMaximumParts = 64;

// Calls function(begin, end, part) on consecutive ranges that cover [0, count), each but the last a
// multiple of `grain` long, in at most kMaximumParts parts; returns how many parts there were.
template <typename Function>
int64_t parallel_ranges(ThreadPool& pool, int64_t count, int64_t grain, Function&& function) {
  const int64_t grains = divide_up(count, grain);
  const int64_t wanted = std::min<int64_t>({grains, pool.size(), kMaximumParts});
  if (wanted <= 0) return 0;
  const int64_t length = divide_up(grains, wanted) * grain;
  const int64_t parts = divide_up(count, length);
  pool.parallel_for(parts, [&](int64_t part, int) {
    function(part * length, std::min(count, (part + 1) * length), part);
  });
  return parts;
}

// As parallel_ranges, for functions that return WideStatistics, and may take the part or not: the
// combined statistics.
template <typename Function>
WideStatistics parallel_statistics(ThreadPool& pool, int64_t count, int64_t grain,
                                   Function&& function) {
  std::array<WideStatistics, kMaximumParts> partial;
  const int64_t parts =
      parallel_ranges(pool, count, grain, [&](int64_t begin, int64_t end, int64_t part) {
        if constexpr (std::is_invocable_v<Function, int64_t, int64_t, int64_t>) {
          partial[part] = function(begin, end, part);
        } else {
          partial[part] = function(begin, end);
        }
      });
  WideStatistics total;
  for (int64_t part = 0; part < parts; ++part) total += partial[part];
  return total;
}

}  // namespace mantissa::kernels
