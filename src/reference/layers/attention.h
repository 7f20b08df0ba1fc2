// Attention of one head of one example in integers: scores q k / sqrt(channels), their softmax P,
// and P v. P has 8 bits: at the fixed exponent 2^-7, or relative to the largest of its row, whose
// sum then divides the result. Either way no tensor's maximum is needed, and the scores of a few
// queries are all that is held at once. Source: METHODS, "Exact non-linear functions"; exponents
// and bounds in docs/operators.md.
#pragma once

#include "reference/numerics/numerics.h"

enum {
  REF_PROBABILITY_BITS = 7,  // P is a whole number of 2^-7, at most 127 of them
  // Of P in the backward pass, if it is relative to its row.
  REF_GRADIENT_PROBABILITY_BITS = 15,
  REF_EXACT_KEYS = 512,           // sums of so many products of P and 16 bits fit int32
  REF_ATTENTION_SCALE_BITS = 20,  // of RefAttentionHead's scale
  REF_GRADIENT_SCALE_BITS = 15,   // of RefAttentionGradient's scale
  REF_MOST_HEAD_CHANNELS = 256,   // then all products below stay within 62 bits
  REF_MOST_BIAS = 1 << 26         // of the bias of a score; scores beside it end at -4 of these
};

// Rows of keys or values: their first `channels` of `stride` mantissas, brought to one exponent.
typedef struct RefAttentionKeys {
  RefConstSpan from;  // up to 16 bits
  int64_t rows REF_CXX(= 0), stride REF_CXX(= 0), channels REF_CXX(= 0);
  const int16_t* exponents REF_CXX(= nullptr);  // [rows]; null: they have the exponent already
  int exponent REF_CXX(= 0);            // at which all numbers fit 16 bits
  int16_t* to REF_CXX(= nullptr);       // [rows, channels], rounded to nearest even
} RefAttentionKeys;

typedef struct RefAttentionHead {
  const int16_t* q REF_CXX(= nullptr);  // [queries, channels], mantissas of up to 16 bits
  const int16_t* k REF_CXX(= nullptr);  // [keys, channels]
  const int16_t* v REF_CXX(= nullptr);  // [keys, channels]
  int64_t queries REF_CXX(= 0);         // perhaps none
  int64_t keys REF_CXX(= 0);
  int64_t channels REF_CXX(= 0);
  int64_t valid_keys REF_CXX(= 0);  // keys from here on are padding, and not read
  bool causal REF_CXX(= false);     // query i meets the keys up to first_query + i
  int64_t first_query REF_CXX(= 0);
  // Not 0: query i meets the `window` keys up to first_query + i, and if it is not causal the
  // window - 1 keys after it, too.
  int64_t window REF_CXX(= 0);
  int q_bits REF_CXX(= 8), k_bits REF_CXX(= 8), v_bits REF_CXX(= 8);
  // log2(e) / sqrt(channels), times the unit of a query's scores, is scale * 2^-(shift + 16).
  int64_t scale REF_CXX(= 0);
  int shift REF_CXX(= 0);
  const int32_t* query_shifts REF_CXX(= nullptr);  // [queries], added to the shift; null: 0
  // Added to the scaled scores: a logarithm to base 2 in Q16 for each distance of a query and a
  // key, [2 bias_height - 1, 2 bias_width - 1] of them, at most REF_MOST_BIAS. Positions lie row by
  // row, bias_width in each row. Null: none.
  const int32_t* bias REF_CXX(= nullptr);
  int64_t bias_height REF_CXX(= 1), bias_width REF_CXX(= 1);
  // P = round(127 e^(score - largest)), and the result is the sum of P v over the sum S of P.
  bool row_probabilities REF_CXX(= false);
#ifdef __cplusplus
  constexpr int64_t keys_of(int64_t query) const;
  constexpr int64_t first_key_of(int64_t query) const;
  constexpr int shift_of(int64_t query) const;
  constexpr bool has_narrow_scores() const;
#endif
} RefAttentionHead;

// A query meets the keys from its first one up to, and without, this one. Perhaps none.
REF_INLINE int64_t ref_keys_of(const RefAttentionHead* head, int64_t query) {
  if (!head->causal && head->window == 0) return head->valid_keys;
  const int64_t after = head->causal ? 1 : head->window;
  return ref_smaller(head->first_query + query + after, head->valid_keys);
}

REF_INLINE int64_t ref_first_key_of(const RefAttentionHead* head, int64_t query) {
  if (head->window == 0) return 0;
  return ref_clamp(head->first_query + query + 1 - head->window, 0, ref_keys_of(head, query));
}

REF_INLINE int ref_shift_of(const RefAttentionHead* head, int64_t query) {
  return head->shift + (head->query_shifts == NULL ? 0 : head->query_shifts[query]);
}

// The place of the bias of a query and a key, if there is one.
REF_INLINE int64_t ref_bias_at(const RefAttentionHead* head, int64_t query, int64_t key) {
  const int64_t width = head->bias_width, from = head->first_query + query;
  const int64_t down = from / width - key / width, right = from % width - key % width;
  return (down + head->bias_height - 1) * (2 * width - 1) + right + width - 1;
}

// Whether the sums q k stay below 2^30.
REF_INLINE bool ref_has_narrow_scores(const RefAttentionHead* head) {
  return head->q_bits - 1 + head->k_bits - 1 + ref_bit_length((uint64_t)head->channels) <= 30;
}

// P relative to its row, of a power in Q30.
REF_INLINE int32_t ref_row_probability(int32_t power) {
  return (int32_t)((power * (int64_t)127 + ((int64_t)1 << 29)) >> 30);
}

// 2^47 / S, rounded down. A sum of P v is at most 2^15 S, so its product has 62 bits.
REF_INLINE int64_t ref_row_reciprocal(int64_t sum) { return ((int64_t)1 << 47) / sum; }

// A sum of P v over S, in units of 2^-7.
REF_INLINE int64_t ref_row_mean(int64_t sum, int64_t reciprocal) {
  return (sum * reciprocal + ((int64_t)1 << 39)) >> 40;
}

// P / S in units of 2^-15.
REF_INLINE int16_t ref_row_share(int64_t p, int64_t reciprocal) {
  const int64_t rounded = (p * reciprocal + ((int64_t)1 << 31)) >> 32;
  return (int16_t)ref_smaller(rounded, (1 << REF_GRADIENT_PROBABILITY_BITS) - 1);
}

#ifdef __cplusplus
constexpr int64_t RefAttentionHead::keys_of(int64_t query) const {
  return ref_keys_of(this, query);
}
constexpr int64_t RefAttentionHead::first_key_of(int64_t query) const {
  return ref_first_key_of(this, query);
}
constexpr int RefAttentionHead::shift_of(int64_t query) const { return ref_shift_of(this, query); }
constexpr bool RefAttentionHead::has_narrow_scores() const { return ref_has_narrow_scores(this); }
#endif

// The gradient of one head. grad_p = grad_out v is rounded to its upper bits by grad_p_shift first.
// grad_scores = P (2^7 grad_p - row term) * scale >> shift, at most 3/4 of 2^31; the row term is
// the exact sum of P grad_p; scale is 1 / sqrt(channels) in 15 bits. With row_probabilities P / S
// in 15 bits is in P's place, and grad_scores = P (grad_p - row term) * scale >> shift, where the
// row term is rounded to the unit of grad_p.
typedef struct RefAttentionGradient {
  const int32_t* grad_out REF_CXX(= nullptr);  // [queries, channels]
  int grad_out_bits REF_CXX(= 16);
  int grad_p_shift REF_CXX(= 0);
  int64_t scale REF_CXX(= 0);
  int shift REF_CXX(= 0);
  // Written, rows of `stride` for the queries, and rows of `key_stride` for all keys.
  int64_t* grad_q REF_CXX(= nullptr);
  int64_t* grad_k REF_CXX(= nullptr);
  int64_t* grad_v REF_CXX(= nullptr);
  int64_t stride REF_CXX(= 0), key_stride REF_CXX(= 0);
  bool adds_to_keys REF_CXX(= false);  // grad_k and grad_v are added to what is there
  // Like the bias: sums of grad_scores are added to it. Null: nobody wants it.
  int64_t* grad_bias REF_CXX(= nullptr);
} RefAttentionGradient;

REF_BEGIN

void ref_align_keys(const RefAttentionKeys*) REF_NOEXCEPT;
// Bytes of the room, aligned to 8, that each of the two takes for a head with so many keys.
int64_t ref_attention_room_bytes(int64_t keys, int64_t channels, bool is_backward) REF_NOEXCEPT;
// out[query * stride + c] = the sum over keys of P v, or over S, at the exponent of v less 7.
void ref_attention_forward(const RefAttentionHead*, void* room, int64_t* out,
                           int64_t stride) REF_NOEXCEPT;
void ref_attention_backward(const RefAttentionHead*, void* room,
                            const RefAttentionGradient*) REF_NOEXCEPT;

REF_END
