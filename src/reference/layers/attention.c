// Query by query. All inner loops run over keys.
#include "reference/layers/attention.h"

#include "reference/elements/elements.h"
#include "reference/numerics/exponential.h"

REF_LOOP void align_keys(int bytes, const RefAttentionKeys* keys) {
  for (int64_t i = 0; i < keys->rows; ++i) {
    const int shift = keys->exponents == NULL ? 0 : keys->exponent - keys->exponents[i];
    for (int64_t c = 0; c < keys->channels; ++c) {
      const int64_t number = ref_load(keys->from.data, bytes, i * keys->stride + c);
      keys->to[i * keys->channels + c] = (int16_t)ref_rescale_rne(number, shift);
    }
  }
}

void ref_align_keys(const RefAttentionKeys* keys) {
  REF_WITH_SHORT_BYTES(keys->from.bits, bytes, align_keys(bytes, keys));
}

// Intermediate results of one head, in memory of the caller's.
typedef struct Room {
  int64_t *scores, *grad_p;    // [keys], as all that follow but the last two
  int64_t *grad_kt, *grad_vt;  // [channels, keys]
  int32_t *narrow_scores, *powers, *grad_scores;
  int16_t* p;
  int16_t *kt, *vt;  // [channels, keys]
} Room;

int64_t ref_attention_room_bytes(int64_t keys, int64_t channels, bool is_backward) {
  const int64_t of_key = is_backward ? 2 * 8 + 3 * 4 + 2 : 8 + 2 * 4 + 2;
  const int64_t of_element = is_backward ? 2 * 8 + 2 * 2 : 2 * 2;
  return keys * (of_key + channels * of_element);
}

// The widest numbers first: each array is aligned.
static Room room_of(const RefAttentionHead* head, void* base, bool is_backward) {
  const int64_t keys = head->keys, elements = keys * head->channels;
  Room room;
  room.scores = (int64_t*)base;
  room.grad_p = room.scores + keys;
  room.grad_kt = room.grad_p + (is_backward ? keys : 0);
  room.grad_vt = room.grad_kt + (is_backward ? elements : 0);
  room.narrow_scores = (int32_t*)(room.grad_vt + (is_backward ? elements : 0));
  room.powers = room.narrow_scores + keys;
  room.grad_scores = room.powers + keys;
  room.p = (int16_t*)(room.grad_scores + (is_backward ? keys : 0));
  room.kt = room.p + keys;
  room.vt = room.kt + elements;
  return room;
}

// to[c * keys + i] = from[i * channels + c], of the valid keys; 0 for the others.
static void transpose_keys(const RefAttentionHead* head, const int16_t* from, int16_t* to) {
  for (int64_t c = 0; c < head->channels; ++c) {
    int16_t* row = to + c * head->keys;
    for (int64_t i = 0; i < head->valid_keys; ++i) row[i] = from[i * head->channels + c];
    for (int64_t i = head->valid_keys; i < head->keys; ++i) row[i] = 0;
  }
}

static Room filled_room(const RefAttentionHead* head, void* base, bool is_backward) {
  const Room room = room_of(head, base, is_backward);
  transpose_keys(head, head->k, room.kt);
  transpose_keys(head, head->v, room.vt);
  return room;
}

// The keys [begin, end) of a query.
typedef struct Keys {
  int64_t begin, end;
} Keys;

static Keys keys_of(const RefAttentionHead* head, int64_t query) {
  return (Keys){ref_first_key_of(head, query), ref_keys_of(head, query)};
}

// Sums of 256 products of 16 bits stay below 2^39; narrow ones below 2^30.
REF_LOOP void score_row(bool narrow, const RefAttentionHead* head, const Room* room, int64_t query,
                        Keys keys) {
  const int16_t* q = head->q + query * head->channels;
  int32_t* restrict scores32 = room->narrow_scores;
  int64_t* restrict scores64 = room->scores;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    if (narrow) {
      scores32[j] = 0;
    } else {
      scores64[j] = 0;
    }
  }
  for (int64_t c = 0; c < head->channels; ++c) {
    const int16_t* restrict k = room->kt + c * head->keys;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      if (narrow) {
        scores32[j] += q[c] * k[j];
      } else {
        scores64[j] += q[c] * k[j];
      }
    }
  }
}

REF_LOOP int64_t largest_of(int bytes, const void* scores, Keys keys) {
  int64_t largest = ref_load(scores, bytes, keys.begin);
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    largest = ref_larger(largest, ref_load(scores, bytes, j));
  }
  return largest;
}

// biased = (score - largest) * scale * 2^-shift + bias.
REF_LOOP void add_bias(int bytes, const RefAttentionHead* head, const void* scores, int64_t query,
                       Keys keys, int32_t* biased) {
  const int64_t largest = largest_of(bytes, scores, keys), least = -4 * (int64_t)REF_MOST_BIAS;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    const int64_t below = (ref_load(scores, bytes, j) - largest) * head->scale;
    const int64_t scaled = ref_larger(ref_rescale_rne(below, ref_shift_of(head, query)), least);
    biased[j] = (int32_t)scaled + head->bias[ref_bias_at(head, query, j)];
  }
}

// powers = e^(score - largest) in Q30, and their sum. A difference of scores is below 2^40, the
// scale at most 2^20.
REF_LOOP int64_t power_row(int bytes, const void* scores, int64_t scale, int shift, Keys keys,
                           int32_t* powers) {
  int64_t largest = largest_of(bytes, scores, keys), sum = 0;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    const int64_t below = ref_load(scores, bytes, j) - largest;
    powers[j] = (int32_t)ref_exp2_q30(ref_rescale_rne(below * scale, shift));
    sum += powers[j];
  }
  return sum;
}

// room.p: probabilities relative to the largest. Returns the reciprocal of their sum.
static int64_t row_probabilities(const Room* room, Keys keys) {
  int64_t sum = 0;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    room->p[j] = (int16_t)ref_row_probability(room->powers[j]);
    sum += room->p[j];
  }
  return ref_row_reciprocal(sum);
}

// room.p: the probabilities of the keys, which are at least one. The largest power is 2^30, so the
// quotient has at most 33 bits. Returns the reciprocal of their sum if they are relative.
static int64_t probabilities(const RefAttentionHead* head, const Room* room, int64_t query,
                          Keys keys) {
  enum { kPowerShift = 62 - REF_PROBABILITY_BITS, kMost = (1 << REF_PROBABILITY_BITS) - 1 };
  const int shift = ref_shift_of(head, query);
  int32_t* const narrow = room->narrow_scores;
  const bool is_narrow = ref_has_narrow_scores(head), has_bias = head->bias != NULL;
  int64_t sum;
  if (is_narrow) {
    score_row(true, head, room, query, keys);
    if (has_bias) add_bias(4, head, narrow, query, keys, narrow);
  } else {
    score_row(false, head, room, query, keys);
    if (has_bias) add_bias(8, head, room->scores, query, keys, narrow);
  }
  if (is_narrow || has_bias) {
    sum = power_row(4, narrow, has_bias ? 1 : head->scale, has_bias ? 0 : shift, keys,
                    room->powers);
  } else {
    sum = power_row(8, room->scores, head->scale, shift, keys, room->powers);
  }
  if (head->row_probabilities) return row_probabilities(room, keys);
  const int64_t reciprocal = ((int64_t)1 << 62) / sum, half = (int64_t)1 << (kPowerShift - 1);
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    const int64_t rounded = (room->powers[j] * reciprocal + half) >> kPowerShift;
    room->p[j] = (int16_t)ref_smaller(rounded, kMost);
  }
  return 0;
}

// The exact sum of P v in channel c.
static int64_t sum_of_values(const RefAttentionHead* head, const Room* room, Keys keys, int64_t c) {
  const int16_t* v = room->vt + c * head->keys;
  int64_t sum = 0;
  for (int64_t first = keys.begin; first < keys.end; first += REF_EXACT_KEYS) {
    const int64_t end = ref_smaller(first + REF_EXACT_KEYS, keys.end);
    int32_t part = 0;
    for (int64_t j = first; j < end; ++j) part += room->p[j] * v[j];
    sum += part;
  }
  return sum;
}

void ref_attention_forward(const RefAttentionHead* head, void* base, int64_t* out, int64_t stride) {
  const Room room = filled_room(head, base, false);
  for (int64_t query = 0; query < head->queries; ++query) {
    const Keys keys = keys_of(head, query);
    int64_t reciprocal = 0;
    if (keys.begin < keys.end) reciprocal = probabilities(head, &room, query, keys);
    for (int64_t c = 0; c < head->channels; ++c) {
      const int64_t sum = sum_of_values(head, &room, keys, c);
      out[query * stride + c] = head->row_probabilities ? ref_row_mean(sum, reciprocal) : sum;
    }
  }
}

// room.grad_scores of the keys.
static void gradient_of_scores(const RefAttentionHead* head, const Room* room,
                               const RefAttentionGradient* g, int64_t query, Keys keys) {
  const int32_t* grad_out = g->grad_out + query * head->channels;
  int64_t* restrict grad_p = room->grad_p;
  for (int64_t j = keys.begin; j < keys.end; ++j) grad_p[j] = 0;
  for (int64_t c = 0; c < head->channels; ++c) {
    const int64_t factor = grad_out[c];
    const int16_t* restrict v = room->vt + c * head->keys;
    for (int64_t j = keys.begin; j < keys.end; ++j) grad_p[j] += factor * v[j];
  }
  int64_t row_term = 0;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    grad_p[j] = ref_shift_right_rne(grad_p[j], g->grad_p_shift);
    row_term += room->p[j] * grad_p[j];
  }
  const bool is_relative = head->row_probabilities;
  if (is_relative) row_term = ref_shift_right_rne(row_term, REF_GRADIENT_PROBABILITY_BITS);
  const int64_t one = is_relative ? 1 : 1 << REF_PROBABILITY_BITS;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    const int64_t centred = grad_p[j] * one - row_term;
    room->grad_scores[j] = (int32_t)ref_shift_right_rne(room->p[j] * centred * g->scale, g->shift);
    if (g->grad_bias != NULL) g->grad_bias[ref_bias_at(head, query, j)] += room->grad_scores[j];
  }
}

// The gradients of q in channel c, and what the query adds to those of k and v.
static int64_t add_channel(const RefAttentionHead* head, const Room* room,
                           const RefAttentionGradient* g, int64_t query, Keys keys, int64_t c) {
  const int16_t* restrict k = room->kt + c * head->keys;
  const int32_t* restrict grad_scores = room->grad_scores;
  int64_t* restrict grad_k = room->grad_kt + c * head->keys;
  int64_t* restrict grad_v = room->grad_vt + c * head->keys;
  const int64_t q = head->q[query * head->channels + c];
  const int64_t grad_out = g->grad_out[query * head->channels + c];
  int64_t sum = 0;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    sum += (int64_t)grad_scores[j] * k[j];
    grad_k[j] += grad_scores[j] * q;
    grad_v[j] += room->p[j] * grad_out;
  }
  return sum;
}

// The gradients of keys or values, [channels, keys], as rows.
static void write_key_gradients(const RefAttentionHead* head, const RefAttentionGradient* g,
                                const int64_t* from, int64_t* to) {
  for (int64_t j = 0; j < head->keys; ++j) {
    int64_t* row = to + j * g->key_stride;
    for (int64_t c = 0; c < head->channels; ++c) {
      row[c] = from[c * head->keys + j] + (g->adds_to_keys ? row[c] : 0);
    }
  }
}

void ref_attention_backward(const RefAttentionHead* head, void* base,
                            const RefAttentionGradient* g) {
  const Room room = filled_room(head, base, true);
  for (int64_t i = 0; i < head->keys * head->channels; ++i) {
    room.grad_kt[i] = 0;
    room.grad_vt[i] = 0;
  }
  for (int64_t query = 0; query < head->queries; ++query) {
    const Keys keys = keys_of(head, query);
    if (keys.begin < keys.end) {
      const int64_t reciprocal = probabilities(head, &room, query, keys);
      for (int64_t j = keys.begin; head->row_probabilities && j < keys.end; ++j) {
        room.p[j] = ref_row_share(room.p[j], reciprocal);
      }
      gradient_of_scores(head, &room, g, query, keys);
    }
    for (int64_t c = 0; c < head->channels; ++c) {
      g->grad_q[query * g->stride + c] = add_channel(head, &room, g, query, keys, c);
    }
  }
  write_key_gradients(head, g, room.grad_kt, g->grad_k);
  write_key_gradients(head, g, room.grad_vt, g->grad_v);
}
