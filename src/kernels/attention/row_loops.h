// Attention query by query, for operands of any width, compiled for each instruction set. All inner
// loops run over keys.
//
// Include inside an anonymous namespace of mantissa::kernels.

// to[c * keys + i] = from[i * channels + c], of the valid keys; 0 for the others.
inline void transpose_keys(const AttentionHead& head, const int16_t* from, int16_t* to) noexcept {
  for (int64_t c = 0; c < head.channels; ++c) {
    for (int64_t i = 0; i < head.valid_keys; ++i) {
      to[c * head.keys + i] = from[i * head.channels + c];
    }
    std::fill(to + c * head.keys + head.valid_keys, to + (c + 1) * head.keys, int16_t{0});
  }
}

inline RowRoom row_room(const AttentionHead& head, std::byte* base, bool is_backward) noexcept {
  const RowRoom room(base, head.keys, head.channels, is_backward);
  transpose_keys(head, head.k, room.kt);
  transpose_keys(head, head.v, room.vt);
  return room;
}

// The keys [begin, end) of a query.
struct QueryKeys {
  int64_t begin, end;
  QueryKeys(const AttentionHead& head, int64_t query)
      : begin(head.first_key_of(query)), end(head.keys_of(query)) {}
  bool empty() const { return begin >= end; }
};

template <typename Score>
void score_row(const AttentionHead& head, const int16_t* kt, int64_t query, const QueryKeys& keys,
               Score* scores) {
  const int16_t* q = head.q + query * head.channels;
  std::fill(scores + keys.begin, scores + keys.end, Score{0});
  for (int64_t c = 0; c < head.channels; ++c) {
    const Score factor = q[c];
    const int16_t* k = kt + c * head.keys;
    for (int64_t j = keys.begin; j < keys.end; ++j) scores[j] += factor * k[j];
  }
}

// powers = e^(score - largest) in Q30, and their sum.
template <typename Score>
int64_t power_row(int64_t scale, int shift, int64_t keys, const Score* scores, int32_t* powers) {
  const int64_t largest = *std::max_element(scores, scores + keys);
  int64_t sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    const int64_t exponent = rescale_rne((scores[j] - largest) * scale, shift);
    powers[j] = static_cast<int32_t>(exp2_q30(exponent));
    sum += powers[j];
  }
  return sum;
}

// Calls visit(key, end, place) for the keys [key, end) of a query in one row of positions: the bias
// of the first of them lies at `place`, and those of the next before it.
template <typename Visit>
void for_biased_keys(const AttentionHead& head, int64_t query, const QueryKeys& keys,
                     const Visit& visit) {
  for (int64_t key = keys.begin; key < keys.end;) {
    const int64_t end = std::min(keys.end, (key / head.bias_width + 1) * head.bias_width);
    visit(key, end, ref_bias_at(&head, query, key));
    key = end;
  }
}

// biased = (score - largest) * scale * 2^-shift + bias, of the keys; the arrays begin with the key
// `first`, and may be one.
template <typename Score>
void add_bias(const AttentionHead& head, int64_t query, const QueryKeys& keys, int64_t first,
              const Score* scores, int32_t* biased) {
  constexpr int64_t kLeast = -4 * int64_t{REF_MOST_BIAS};
  const int64_t largest =
      *std::max_element(scores + (keys.begin - first), scores + (keys.end - first));
  const int shift = head.shift_of(query);
  for_biased_keys(head, query, keys, [&](int64_t key, int64_t end, int64_t place) {
    for (int64_t j = key; j < end; ++j) {
      const int64_t below = (scores[j - first] - largest) * head.scale;
      biased[j - first] = static_cast<int32_t>(std::max(rescale_rne(below, shift), kLeast) +
                                               head.bias[place + key - j]);
    }
  });
}

// Adds grad_score(key) of a query's keys to the gradient of the bias.
template <typename GradScore>
void add_bias_gradient(const AttentionHead& head, int64_t query, const QueryKeys& keys,
                       int64_t* grad_bias, const GradScore& grad_score) {
  for_biased_keys(head, query, keys, [&](int64_t key, int64_t end, int64_t place) {
    for (int64_t j = key; j < end; ++j) grad_bias[place + key - j] += grad_score(j);
  });
}

constexpr int kPowerShift = 62 - kProbabilityBits;
constexpr int64_t kMostProbability = (1 << kProbabilityBits) - 1;

// room.p: the probabilities of the keys, which are at least one. Returns the reciprocal of their
// sum if they are relative to the largest.
inline int64_t probabilities(const AttentionHead& head, const RowRoom& room, int64_t query,
                          const QueryKeys& keys) {
  int64_t sum = 0;
  const int shift = head.shift_of(query);
  const int64_t count = keys.end - keys.begin;
  int32_t* const powers = room.powers + keys.begin;
  const auto raise = [&](auto* scores) {
    score_row(head, room.kt, query, keys, scores);
    if (head.bias == nullptr) {
      sum = power_row(head.scale, shift, count, scores + keys.begin, powers);
    } else {
      add_bias(head, query, keys, 0, scores, room.powers);
      sum = power_row(1, 0, count, powers, powers);
    }
  };
  if (head.has_narrow_scores()) {
    raise(reinterpret_cast<int32_t*>(room.scores));
  } else {
    raise(room.scores);
  }
  if (head.row_probabilities) {
    int64_t total = 0;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      room.p[j] = static_cast<int16_t>(ref_row_probability(room.powers[j]));
      total += room.p[j];
    }
    return ref_row_reciprocal(total);
  }
  // The largest power is 2^30, so the quotient has at most 33 bits.
  const int64_t reciprocal = (int64_t{1} << 62) / sum;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    const int64_t rounded =
        (room.powers[j] * reciprocal + (int64_t{1} << (kPowerShift - 1))) >> kPowerShift;
    room.p[j] = static_cast<int16_t>(std::min(rounded, kMostProbability));
  }
  return 0;
}

constexpr int64_t kExactKeys = REF_EXACT_KEYS;

// The exact sum of P v over the keys.
inline int64_t sum_of_values(const int16_t* p, const int16_t* v, const QueryKeys& keys) {
  int64_t sum = 0;
  for (int64_t first = keys.begin; first < keys.end; first += kExactKeys) {
    const int64_t end = std::min(first + kExactKeys, keys.end);
    int32_t part = 0;
    for (int64_t j = first; j < end; ++j) part += int32_t{p[j]} * v[j];
    sum += part;
  }
  return sum;
}

inline void forward_by_rows(const AttentionHead& head, std::byte* base, int64_t* out,
                            int64_t stride) noexcept {
  const RowRoom room = row_room(head, base, false);
  for (int64_t query = 0; query < head.queries; ++query) {
    const QueryKeys keys(head, query);
    const int64_t reciprocal = keys.empty() ? 0 : probabilities(head, room, query, keys);
    for (int64_t c = 0; c < head.channels; ++c) {
      const int64_t sum = sum_of_values(room.p, room.vt + c * head.keys, keys);
      out[query * stride + c] = head.row_probabilities ? ref_row_mean(sum, reciprocal) : sum;
    }
  }
}

// room.grad_scores of the keys.
inline void gradient_of_scores(const AttentionHead& head, const RowRoom& room,
                               const AttentionGradient& g, int64_t query, const QueryKeys& keys) {
  const int32_t* grad_out = g.grad_out + query * head.channels;
  std::fill(room.grad_p + keys.begin, room.grad_p + keys.end, int64_t{0});
  for (int64_t c = 0; c < head.channels; ++c) {
    const int64_t factor = grad_out[c];
    const int16_t* v = room.vt + c * head.keys;
    for (int64_t j = keys.begin; j < keys.end; ++j) room.grad_p[j] += factor * v[j];
  }
  int64_t row_term = 0;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    room.grad_p[j] = shift_right_rne(room.grad_p[j], g.grad_p_shift);
    row_term += room.p[j] * room.grad_p[j];
  }
  const bool is_relative = head.row_probabilities;
  if (is_relative) row_term = shift_right_rne(row_term, REF_GRADIENT_PROBABILITY_BITS);
  const int64_t one = is_relative ? 1 : 1 << kProbabilityBits;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    const int64_t centred = room.grad_p[j] * one - row_term;
    room.grad_scores[j] =
        static_cast<int32_t>(shift_right_rne(room.p[j] * centred * g.scale, g.shift));
  }
  if (g.grad_bias == nullptr) return;
  add_bias_gradient(head, query, keys, g.grad_bias,
                    [&](int64_t key) { return room.grad_scores[key]; });
}

// Some keys' gradients, [channels, keys], as rows. `keys` is a constant for most of them.
template <bool kAdds, typename Keys>
inline void write_rows_of_keys(const AttentionHead& head, const int64_t* __restrict from,
                               int64_t from_stride, Keys keys, int64_t* __restrict to,
                               int64_t to_stride) noexcept {
  for (int64_t c = 0; c < head.channels; ++c, from += from_stride) {
    int64_t* at = to + c;
    for (int64_t j = 0; j < keys; ++j, at += to_stride) *at = from[j] + (kAdds ? *at : 0);
  }
}

// The gradients of keys or values, [channels, keys], as rows.
inline void write_key_gradients(const AttentionHead& head, const AttentionGradient& g,
                                const int64_t* from, int64_t from_stride, int64_t* to) noexcept {
  constexpr int64_t kBlock = 8;  // keys whose rows stay in the L1 cache
  constexpr std::integral_constant<int64_t, kBlock> kWhole;
  for (int64_t first = 0; first < head.keys; first += kBlock) {
    const auto write = [&](auto keys) {
      const auto of_keys = g.adds_to_keys ? write_rows_of_keys<true, decltype(keys)>
                                          : write_rows_of_keys<false, decltype(keys)>;
      of_keys(head, from + first, from_stride, keys, to + first * g.key_stride, g.key_stride);
    };
    first + kBlock <= head.keys ? write(kWhole) : write(head.keys - first);
  }
}

inline void backward_by_rows(const AttentionHead& head, std::byte* base,
                             const AttentionGradient& g) noexcept {
  const RowRoom room = row_room(head, base, true);
  std::fill_n(room.grad_kt, head.keys * head.channels, int64_t{0});
  std::fill_n(room.grad_vt, head.keys * head.channels, int64_t{0});
  for (int64_t query = 0; query < head.queries; ++query) {
    const QueryKeys keys(head, query);
    if (!keys.empty()) {
      const int64_t reciprocal = probabilities(head, room, query, keys);
      for (int64_t j = keys.begin; head.row_probabilities && j < keys.end; ++j) {
        room.p[j] = ref_row_share(room.p[j], reciprocal);
      }
      gradient_of_scores(head, room, g, query, keys);
    }
    for (int64_t c = 0; c < head.channels; ++c) {
      const int16_t* k = room.kt + c * head.keys;
      int64_t* grad_k = room.grad_kt + c * head.keys;
      int64_t* grad_v = room.grad_vt + c * head.keys;
      const int64_t q = head.q[query * head.channels + c];
      const int64_t grad_out = g.grad_out[query * head.channels + c];
      int64_t sum = 0;
      for (int64_t j = keys.begin; j < keys.end; ++j) {
        sum += int64_t{room.grad_scores[j]} * k[j];
        grad_k[j] += room.grad_scores[j] * q;
        grad_v[j] += room.p[j] * grad_out;
      }
      g.grad_q[query * g.stride + c] = sum;
    }
  }
  write_key_gradients(head, g, room.grad_kt, head.keys, g.grad_k);
  write_key_gradients(head, g, room.grad_vt, head.keys, g.grad_v);
}
