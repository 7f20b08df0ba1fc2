// Rounding of gradients that were written wider than most readers want them: stochastically (16-bit
// mantissas to fewer bits, up or down with a probability that keeps the mean) or to nearest even.
// Also dropout, the other use of a random number per element, and counts of large mantissas.
//
// The random bits are a pure function of (seed, stream, micro-batch, tensor, element). Element
// i = 128 g + 32 w + 16 h + l takes half h (0 the low 16 bits) of word w of block 16 g + l: an
// order in which 16 blocks are computed side by side. Source: METHODS sections 0 (key) and 1 (g =
// 8).
#pragma once

#include "reference/numerics/exponents.h"

// out = saturate(floor((in + r) / 2^shift), +-(2^(bits-1) - 1)) with r uniform in [0, 2^shift).
typedef struct RefRoundStochastically {
  RefRandomKey key;
  const int16_t* in REF_CXX(= nullptr);
  int shift REF_CXX(= 0);  // 0..16
  RefSpan out;
} RefRoundStochastically;

// out = saturate(rne(in >> shift), +-(2^(bits-1) - 1)).
typedef struct RefRoundToNearest {
  RefConstSpan in;         // of up to 32 bits
  int shift REF_CXX(= 0);  // 0..31
  RefSpan out;             // of up to 16
} RefRoundToNearest;

REF_BEGIN

// Elements [begin, end); return how many were clipped.
int64_t ref_round_stochastically(const RefRoundStochastically*, int64_t begin,
                                 int64_t end) REF_NOEXCEPT;
int64_t ref_round_to_nearest(const RefRoundToNearest*, int64_t begin, int64_t end) REF_NOEXCEPT;
// max |in| over [begin, end); `in` of up to 32 bits.
uint64_t ref_maximum(RefConstSpan in, int64_t begin, int64_t end) REF_NOEXCEPT;
// keep[i - begin] = 1 with probability 1 - dropped / 2^16, else 0: whether the 16 random bits of
// element i are at least `dropped`.
void ref_keep_mask(const RefRandomKey* key, uint32_t dropped, int64_t begin, int64_t end,
                   int8_t* keep) REF_NOEXCEPT;

// For b-bit mantissas and k = 0, 1, ... adds to large[k] the number of elements [begin, end) with
// |mantissa| >= 2^(b-2-k), which would not fit b - 1 - k bits; of b < k + 2, all but zeros.
// Mantissas of 2 to 32 bits. Source: DynamicFixed, claim 1 ("the position of the leftmost set
// bit"), METHODS section 2.
void ref_count_large(RefConstSpan mantissas, int64_t begin, int64_t end,
                     int64_t* large) REF_NOEXCEPT;

REF_END
