// Rounding of gradients that were written wider than most readers want them: stochastically (16-bit
// mantissas to fewer bits, up or down with a probability that keeps the mean) or to nearest even.
// Also dropout, the other use of a random number per element.
//
// The random bits are a pure function of (seed, stream, micro-batch, tensor, element). Element
// i = 128 g + 32 w + 16 h + l takes half h (0 the low 16 bits) of word w of block 16 g + l: an
// order in which 16 blocks are computed side by side. Source: METHODS sections 0 (key) and 1 (g =
// 8).
#pragma once

#include <cstdint>

#include "base/system/cpu.h"
#include "kernels/common/mantissa_span.h"
#include "kernels/common/random_key.h"
#include "reference/elements/rounding.h"

namespace mantissa::kernels {

// What a call takes (reference/elements/rounding.h).
using RoundStochastically = RefRoundStochastically;
using RoundToNearest = RefRoundToNearest;

struct RoundingKernels {
  const char* name;
  Features needs;
  // Elements [begin, end) on the calling thread, begin a multiple of kRandomGroup. Returns how
  // many were clipped.
  int64_t (*round)(const RoundStochastically&, int64_t begin, int64_t end) noexcept;
  // Elements [begin, end); returns how many were clipped.
  int64_t (*round_to_nearest)(const RoundToNearest&, int64_t begin, int64_t end) noexcept;
  // max |in| over [begin, end); `in` of up to 32 bits.
  uint64_t (*maximum)(ConstMantissaSpan in, int64_t begin, int64_t end) noexcept;
  // keep[i - begin] = 1 with probability 1 - dropped / 2^16, else 0: whether the 16 random bits of
  // element i are at least `dropped`. begin is a multiple of kRandomGroup.
  void (*keep_mask)(const RandomKey&, uint32_t dropped, int64_t begin, int64_t end,
                    int8_t* keep) noexcept;
};

constexpr int64_t kRandomGroup = 128;
// Elements below which a thread is not worth waking.
constexpr int64_t kRandomElementsPerThread = 128 * kRandomGroup;

extern const RoundingKernels kRoundingReference;
#if defined(__x86_64__)
extern const RoundingKernels kRoundingAvx2;
extern const RoundingKernels kRoundingAvx512Vnni;
#endif

}  // namespace mantissa::kernels
