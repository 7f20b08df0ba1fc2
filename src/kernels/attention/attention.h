// Attention of one head of one example in integers: scores q k / sqrt(channels), their softmax P,
// and P v. P has 8 bits at the fixed exponent 2^-7, so that no tensor's maximum is needed, and a
// row of scores is all that is held at once. Source: METHODS, "Exact non-linear functions";
// exponents and bounds in docs/operators.md.
//
// Functions work on the rows [begin, end) of queries, on the calling thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/cpu.h"

namespace mantissa::kernels {

constexpr int kProbabilityBits = 7;         // P is a whole number of 2^-7, at most 127 of them
constexpr int kAttentionScaleBits = 20;     // of AttentionHead::scale
constexpr int kGradientScaleBits = 15;      // of AttentionGradient::scale
constexpr int64_t kMostHeadChannels = 256;  // then all products below stay within 62 bits
constexpr int64_t kMostQueries = int64_t{1} << 16;

struct AttentionHead {
  const int16_t* q = nullptr;   // [queries, channels], mantissas of up to 16 bits
  const int16_t* kt = nullptr;  // [channels, keys]: one channel after the other
  const int16_t* vt = nullptr;  // [channels, keys]
  int64_t channels = 0;
  int64_t keys = 0;
  int64_t valid_keys = 0;  // keys from here on are padding
  bool causal = false;     // query i meets the keys up to first_query + i
  int64_t first_query = 0;
  // log2(e) / sqrt(channels), times the unit of the scores, is scale * 2^-(shift + 16).
  int64_t scale = 0;
  int shift = 0;
  bool narrow_scores = true;  // the sums q k fit int32

  // How many keys a query meets.
  int64_t keys_of(int64_t query) const {
    return causal ? std::min(first_query + query + 1, valid_keys) : valid_keys;
  }
};

// Room for a row of scores, and for its gradients: [keys] each.
struct AttentionRow {
  int64_t* scores = nullptr;
  int32_t* powers = nullptr;
  int16_t* p = nullptr;
  int64_t* grad_p = nullptr;       // backward only
  int32_t* grad_scores = nullptr;  // backward only
};

// The gradient of one head. grad_p = grad_out v is rounded to its upper bits by grad_p_shift first.
// grad_scores = P (2^7 grad_p - row term) * scale >> shift, below 2^31, where the row term is the
// exact sum of P grad_p; scale is 1 / sqrt(channels) in 15 bits.
struct AttentionGradient {
  const int32_t* grad_out = nullptr;  // [queries, channels]
  int grad_p_shift = 0;
  int64_t scale = 0;
  int shift = 0;
  int64_t* grad_q = nullptr;  // rows of `stride`; written
  int64_t stride = 0;
  int64_t* grad_kt = nullptr;  // [channels, keys]; added to
  int64_t* grad_vt = nullptr;  // [channels, keys]; added to
};

struct AttentionKernels {
  const char* name;
  Features needs;
  // out[query * stride + c] = the sum over keys of P v, at the exponent of v less 7.
  void (*forward)(const AttentionHead&, const AttentionRow&, int64_t begin, int64_t end,
                  int64_t* out, int64_t stride) noexcept;
  void (*backward)(const AttentionHead&, const AttentionRow&, const AttentionGradient&,
                   int64_t begin, int64_t end) noexcept;
};

extern const AttentionKernels kAttentionReference;
#if defined(__x86_64__)
extern const AttentionKernels kAttentionAvx2;
extern const AttentionKernels kAttentionAvx512Vnni;
#endif

}  // namespace mantissa::kernels
