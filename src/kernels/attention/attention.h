// Attention of one head of one example in integers: scores q k / sqrt(channels), their softmax P,
// and P v. P has 8 bits: at the fixed exponent 2^-7, or relative to the largest of its row, whose
// sum then divides the result. Either way no tensor's maximum is needed, and the scores of a few
// queries are all that is held at once. Source: METHODS, "Exact non-linear functions"; exponents
// and bounds in docs/operators.md.
//
// Functions compute a head on the calling thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/system/cpu.h"
#include "reference/layers/attention.h"

namespace mantissa::kernels {

constexpr int kProbabilityBits = REF_PROBABILITY_BITS;
constexpr int kAttentionScaleBits = REF_ATTENTION_SCALE_BITS;
constexpr int kGradientScaleBits = REF_GRADIENT_SCALE_BITS;
constexpr int64_t kMostHeadChannels = REF_MOST_HEAD_CHANNELS;
constexpr int64_t kMostQueries = int64_t{1} << 16;

// What a call takes (reference/layers/attention.h).
using AttentionHead = RefAttentionHead;
using AttentionGradient = RefAttentionGradient;
using AttentionKeys = RefAttentionKeys;

// Whether the backward pass multiplies numbers of 8 bits only, gradients aside. Probabilities
// relative to their row have 15 bits there.
constexpr bool has_narrow_gradients(const AttentionHead& head) {
  return std::max({head.q_bits, head.k_bits, head.v_bits}) <= 8 && !head.row_probabilities;
}

struct AttentionKernels {
  const char* name;
  Features needs;
  void (*align)(const AttentionKeys&) noexcept;
  // out[query * stride + c] = the sum over keys of P v, or over the sum of P, at the exponent of v
  // less 7.
  void (*forward)(const AttentionHead&, std::byte* room, int64_t* out, int64_t stride) noexcept;
  void (*backward)(const AttentionHead&, std::byte* room, const AttentionGradient&) noexcept;
};

// Bytes of the room, aligned to 8, that each of them takes for a head with at most this many
// queries and keys. Linear in both. `is_wide`: forward, not has_narrow_scores(); backward, not
// has_narrow_gradients().
int64_t attention_room_bytes(int64_t queries, int64_t keys, int64_t channels, bool is_backward,
                             bool is_wide);

extern const AttentionKernels kAttentionReference;
#if defined(__x86_64__)
extern const AttentionKernels kAttentionAvx2;
extern const AttentionKernels kAttentionAvx512Vnni;
#endif

}  // namespace mantissa::kernels
