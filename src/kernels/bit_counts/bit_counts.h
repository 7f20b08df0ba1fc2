// How many mantissas of a narrowed block need its highest bits: the counts of dynamic fixed point.
//
// For b-bit mantissas and k = 0, 1, ... large[k] counts those with |mantissa| >= 2^(b-2-k), which
// would not fit b - 1 - k bits. Source: DynamicFixed, claim 1 ("the position of the leftmost set
// bit"), METHODS section 2.
#pragma once

#include <array>
#include <cstdint>

#include "base/system/cpu.h"
#include "kernels/common/mantissa_span.h"
#include "numerics/bit_statistics.h"

namespace mantissa::kernels {

using LargeCounts = std::array<int64_t, kFinerExponents>;

struct BitCountKernels {
  const char* name;
  Features needs;
  // Adds the counts of elements [begin, end) to `large`; mantissas of 2 to 32 bits, symmetric. With
  // fewer than k + 2 bits large[k] counts all but zeros.
  void (*count_large)(ConstMantissaSpan mantissas, int64_t begin, int64_t end,
                      LargeCounts& large) noexcept;
};

// The smallest magnitude that large[k] counts.
constexpr int64_t large_from(int bits, int k) {
  return bits < k + 2 ? 1 : int64_t{1} << (bits - 2 - k);
}

extern const BitCountKernels kBitCountsReference;
#if defined(__x86_64__)
extern const BitCountKernels kBitCountsAvx2;
extern const BitCountKernels kBitCountsAvx512Vnni;
#endif

}  // namespace mantissa::kernels
