// What needs a random number per element: stochastic rounding of gradients (16-bit mantissas to
// fewer bits, up or down with a probability that keeps the mean), and dropout.
//
// The random bits are a pure function of (seed, stream, micro-batch, tensor, element):
// Philox4x32-10 blocks with the counter {block, tensor, micro_batch, stream}. Element
// i = 128 g + 32 w + 16 h + l takes half h (0 the low 16 bits) of word w of block 16 g + l: an
// order in which 16 blocks are computed side by side. Source: METHODS sections 0 (key) and 1 (g =
// 8).
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "base/random.h"
#include "kernels/gradient.h"

namespace mantissa::kernels {

struct RandomKey {
  RandomStream stream = RandomStream::kRound;
  uint64_t seed = 0;
  uint32_t micro_batch = 0;  // counted over the whole run
  uint32_t tensor = 0;
};

// out = saturate(floor((in + r) / 2^shift), +-(2^(bits-1) - 1)) with r uniform in [0, 2^shift).
struct RoundStochastically {
  RandomKey key;
  const int16_t* in = nullptr;
  int shift = 0;  // 0..16
  Gradient out;
};

struct RoundingKernels {
  const char* name;
  Isa isa;
  // Elements [begin, end) on the calling thread, begin a multiple of kRandomGroup. Returns how
  // many were clipped.
  int64_t (*round)(const RoundStochastically&, int64_t begin, int64_t end) noexcept;
  // max |in| over [begin, end).
  uint64_t (*maximum)(const int16_t* in, int64_t begin, int64_t end) noexcept;
  // keep[i - begin] = 1 with probability 1 - dropped / 2^16, else 0: whether the 16 random bits of
  // element i are at least `dropped`. begin is a multiple of kRandomGroup.
  void (*keep_mask)(const RandomKey&, uint32_t dropped, int64_t begin, int64_t end,
                    int8_t* keep) noexcept;
};

constexpr int64_t kRandomGroup = 128;

extern const RoundingKernels kRoundingReference;
#if defined(__x86_64__)
extern const RoundingKernels kRoundingAvx2;
extern const RoundingKernels kRoundingAvx512Vnni;
#endif

}  // namespace mantissa::kernels
