// Attention of one head of one example in integers: scores q k / sqrt(channels), their softmax P,
// and P v. P has 8 bits at the fixed exponent 2^-7, so that no tensor's maximum is needed, and the
// scores of a few queries are all that is held at once. Source: METHODS, "Exact non-linear
// functions"; exponents and bounds in docs/operators.md.
//
// Functions compute a head on the calling thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/system/cpu.h"

namespace mantissa::kernels {

constexpr int kProbabilityBits = 7;         // P is a whole number of 2^-7, at most 127 of them
constexpr int kAttentionScaleBits = 20;     // of AttentionHead::scale
constexpr int kGradientScaleBits = 15;      // of AttentionGradient::scale
constexpr int64_t kMostHeadChannels = 256;  // then all products below stay within 62 bits
constexpr int64_t kMostQueries = int64_t{1} << 16;

struct AttentionHead {
  const int16_t* q = nullptr;  // [queries, channels], mantissas of up to 16 bits
  const int16_t* k = nullptr;  // [keys, channels]
  const int16_t* v = nullptr;  // [keys, channels]
  int64_t queries = 0;         // perhaps none
  int64_t keys = 0;
  int64_t channels = 0;
  int64_t valid_keys = 0;  // keys from here on are padding, and not read
  bool causal = false;     // query i meets the keys up to first_query + i
  int64_t first_query = 0;
  int q_bits = 8, k_bits = 8, v_bits = 8;
  // log2(e) / sqrt(channels), times the unit of a query's scores, is scale * 2^-(shift + 16).
  int64_t scale = 0;
  int shift = 0;
  const int32_t* query_shifts = nullptr;  // [queries], added to the shift; null: 0

  // How many keys a query meets.
  int64_t keys_of(int64_t query) const {
    return causal ? std::min(first_query + query + 1, valid_keys) : valid_keys;
  }
  int shift_of(int64_t query) const {
    return shift + (query_shifts == nullptr ? 0 : query_shifts[query]);
  }
  // Whether the sums q k stay below 2^30.
  bool has_narrow_scores() const;
};

// The gradient of one head. grad_p = grad_out v is rounded to its upper bits by grad_p_shift first.
// grad_scores = P (2^7 grad_p - row term) * scale >> shift, at most 3/4 of 2^31; the row term is
// the exact sum of P grad_p; scale is 1 / sqrt(channels) in 15 bits.
struct AttentionGradient {
  const int32_t* grad_out = nullptr;  // [queries, channels]
  int grad_out_bits = 16;
  int grad_p_shift = 0;
  int64_t scale = 0;
  int shift = 0;
  // Written, rows of `stride` each: for the queries, and for all keys.
  int64_t* grad_q = nullptr;
  int64_t* grad_k = nullptr;
  int64_t* grad_v = nullptr;
  int64_t stride = 0;
};

struct AttentionKernels {
  const char* name;
  Features needs;
  // out[query * stride + c] = the sum over keys of P v, at the exponent of v less 7.
  void (*forward)(const AttentionHead&, std::byte* room, int64_t* out, int64_t stride) noexcept;
  void (*backward)(const AttentionHead&, std::byte* room, const AttentionGradient&) noexcept;
};

// Bytes of the room, aligned to 8, that each of them takes for a head with at most this many
// queries and keys. Linear in both.
int64_t attention_room_bytes(int64_t queries, int64_t keys, int64_t channels, bool is_backward);

extern const AttentionKernels kAttentionReference;
#if defined(__x86_64__)
extern const AttentionKernels kAttentionAvx2;
extern const AttentionKernels kAttentionAvx512Vnni;
#endif

}  // namespace mantissa::kernels
