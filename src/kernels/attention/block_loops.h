// Attention a block of queries at a time, for narrow operands: all sums are products of pairs of
// int16. The same bits as row_loops.h.
//
// Include inside an anonymous namespace of mantissa::kernels, after block_scores.h.

// out = the sums of P v of the block, as many products at a time as int32 holds exactly.
inline void multiply_values(const AttentionHead& head, const BlockRoom& room,
                            const QueryBlock& block, int64_t* out, int64_t stride) noexcept {
  int64_t first = 0;
  do {  // once at least: without keys the sums are 0
    const PairFactors factors{room.p + first, room.keys,
                              room.v_pairs + first / 2 * room.channels, room.channels,
                              std::min(kExactKeys, block.keys - first) / 2};
    pair_products(factors, block.queries, room.channels,
                  [&](int64_t row, int64_t column, Words words) {
                    int64_t* const to = out + row * stride + column;
                    const int64_t count = std::min(kWords, head.channels - column);
                    for (int64_t c = 0; c < count; ++c) to[c] = (first == 0 ? 0 : to[c]) + words[c];
                  });
    first += kExactKeys;
  } while (first < block.keys);
}

inline void forward_by_blocks(const AttentionHead& head, std::byte* base, int64_t* out,
                              int64_t stride) noexcept {
  const bool is_wide = !head.has_narrow_scores();
  const BlockRoom whole(base, head.queries, head.keys, head.channels, false, is_wide);
  if (is_wide) split_queries(head, whole.q_low, whole.q_high);
  pack_channel_pairs(head, head.k, whole.keys, whole.kt_pairs);
  std::fill_n(whole.v_pairs, whole.keys / 2 * whole.channels, 0);
  pack_row_pairs(head.v, head.channels, head.channels, head.valid_keys, whole.channels,
                 whole.v_pairs);
  for (int64_t begin = 0; begin < head.queries; begin += kQueryBlock) {
    const QueryBlock block(head, begin);
    const BlockRoom room = block.room_of(whole);
    multiply_channels(head, room, block, is_wide ? room.q_low : head.q, room.kt_pairs, room.scores);
    if (is_wide) {
      multiply_channels(head, room, block, room.q_high, room.kt_pairs, room.high_scores);
    }
    int64_t reciprocals[kQueryBlock];
    for (int64_t i = 0; i < block.queries; ++i) {
      reciprocals[i] = probability_lanes(head, room, block, i);
    }
    int64_t* const to = out + begin * stride;
    multiply_values(head, room, block, to, stride);
    for (int64_t i = 0; head.row_probabilities && i < block.queries; ++i) {
      for (int64_t c = 0; c < head.channels; ++c) {
        to[i * stride + c] = ref_row_mean(to[i * stride + c], reciprocals[i]);
      }
    }
  }
}

// The gradients of the scores of a query as two halves, grad = high * 2^16 + low.
inline void gradient_lanes(const AttentionGradient& g, int64_t padded, const int16_t* p,
                           const int32_t* grad_p, int16_t* low, int16_t* high) noexcept {
  Lanes row_terms = {};
  for (int64_t j = 0; j < padded; j += kWords) {
    const Words probability = load_words(p + j), gradient = load_words(grad_p + j);
    row_terms += product(evens_of(probability), evens_of(gradient)) +
                 product(odds_of(probability), odds_of(gradient));
  }
  const RoundEvenLanes round{RoundEven64(g.shift)};
  const Lanes scale = all(g.scale), one = all(1 << kProbabilityBits),
              term = all(lane_sum(row_terms));
  for (int64_t j = 0; j < padded; j += kWords) {
    const Words probability = load_words(p + j), gradient = load_words(grad_p + j);
    const auto of_score = [&](Lanes probabilities, Lanes gradients) {
      return round(product(probabilities, scale) * (product(gradients, one) - term));
    };
    const Words scores = interleaved(of_score(evens_of(probability), evens_of(gradient)),
                                     of_score(odds_of(probability), odds_of(gradient)));
    store_words(low + j, scores);
    store_words(high + j, (scores + all_words(1 << 15)) >> 16);
  }
}

// sums[c][key] += the block's products of left, [channels, queries], and pairs of queries, shifted.
inline void add_query_products(const AttentionHead& head, const BlockRoom& room,
                               const QueryBlock& block, const int16_t* left, const int32_t* pairs,
                               int shift, int64_t* sums) noexcept {
  const PairFactors factors{left + block.begin, room.queries, pairs, room.keys,
                            divide_up<int64_t>(block.queries, 2)};
  pair_products(factors, head.channels, block.keys, [&](int64_t row, int64_t column, Words words) {
    int64_t* const to = sums + row * room.keys + column;
    for (int64_t j = 0; j < kWords; ++j) to[j] += int64_t{words[j]} << shift;
  });
}

// The gradient of the block's queries: for this many keys at a time the sums fit int32.
inline void write_query_gradients(const AttentionHead& head, const BlockRoom& room,
                                  const AttentionGradient& g, const QueryBlock& block) noexcept {
  constexpr int64_t kKeysAtOnce = 256;
  for (int64_t i = 0; i < block.queries; ++i) {
    std::fill_n(g.grad_q + (block.begin + i) * g.stride, head.channels, int64_t{0});
  }
  for (int64_t key = 0; key < block.keys; key += kKeysAtOnce) {
    const int64_t keys = std::min(kKeysAtOnce, block.keys - key);
    const auto add = [&](const int16_t* half, int shift) {
      const PairFactors factors{half + key, room.keys, room.k_pairs + key / 2 * room.channels,
                                room.channels, keys / 2};
      pair_products(factors, block.queries, room.channels,
                    [&](int64_t row, int64_t column, Words words) {
                      int64_t* const to = g.grad_q + (block.begin + row) * g.stride + column;
                      const int64_t count = std::min(kWords, head.channels - column);
                      for (int64_t c = 0; c < count; ++c) to[c] += int64_t{words[c]} << shift;
                    });
    };
    add(room.low, 0);
    add(room.high, 16);
  }
}

inline void backward_block(const AttentionHead& head, const BlockRoom& room,
                           const AttentionGradient& g, const QueryBlock& block) noexcept {
  multiply_channels(head, room, block, head.q, room.kt_pairs, room.scores);
  multiply_channels(head, room, block, room.grad_out, room.vt_pairs, room.grad_p);
  for (int64_t i = 0; i < block.queries; ++i) {
    const int64_t at = i * room.keys;
    probability_lanes(head, room, block, i);
    gradient_lanes(g, block.keys, room.p + at, room.grad_p + at, room.low + at, room.high + at);
    if (g.grad_bias == nullptr) continue;
    const int16_t *const low = room.low + at - block.first_key,
                  *const high = room.high + at - block.first_key;
    add_bias_gradient(head, block.begin + i, QueryKeys(head, block.begin + i), g.grad_bias,
                      [&](int64_t key) { return high[key] * int64_t{1 << 16} + low[key]; });
  }
  const auto pack = [&](const int16_t* from, int32_t* to) {
    pack_row_pairs(from, room.keys, block.keys, block.queries, room.keys, to);
  };
  pack(room.p, room.p_pairs);
  pack(room.low, room.low_pairs);
  pack(room.high, room.high_pairs);
  add_query_products(head, room, block, room.grad_out_t, room.p_pairs, 0, room.grad_vt);
  add_query_products(head, room, block, room.qt, room.low_pairs, 0, room.grad_kt);
  add_query_products(head, room, block, room.qt, room.high_pairs, 16, room.grad_kt);
  write_query_gradients(head, room, g, block);
}

inline void backward_by_blocks(const AttentionHead& head, std::byte* base,
                               const AttentionGradient& g) noexcept {
  const BlockRoom room(base, head.queries, head.keys, head.channels, true, false);
  pack_channel_pairs(head, head.k, room.keys, room.kt_pairs);
  pack_channel_pairs(head, head.v, room.keys, room.vt_pairs);
  std::fill_n(room.k_pairs, room.keys / 2 * room.channels, 0);
  pack_row_pairs(head.k, head.channels, head.channels, head.valid_keys, room.channels,
                 room.k_pairs);
  for (int64_t i = 0; i < head.queries * head.channels; ++i) {
    room.grad_out[i] = static_cast<int16_t>(g.grad_out[i]);
  }
  transpose_queries(head, head.q, room.queries, room.qt);
  transpose_queries(head, room.grad_out, room.queries, room.grad_out_t);
  std::fill_n(room.grad_kt, head.channels * room.keys, int64_t{0});
  std::fill_n(room.grad_vt, head.channels * room.keys, int64_t{0});
  for (int64_t begin = 0; begin < head.queries; begin += kQueryBlock) {
    const QueryBlock block(head, begin);
    backward_block(head, block.room_of(room), g, block);
  }
  write_key_gradients(head, g, room.grad_kt, room.keys, g.grad_k);
  write_key_gradients(head, g, room.grad_vt, room.keys, g.grad_v);
}

inline void forward(const AttentionHead& head, std::byte* room, int64_t* out,
                    int64_t stride) noexcept {
  return head.channels % 2 == 0 ? forward_by_blocks(head, room, out, stride)
                                : forward_by_rows(head, room, out, stride);
}

// Sums of 32 keys or queries, or of a head's channels, fit int32 for operands this narrow.
inline void backward(const AttentionHead& head, std::byte* room,
                     const AttentionGradient& g) noexcept {
  // Probabilities relative to their row have 15 bits here, whose sums leave int32.
  const bool is_narrow = std::max({head.q_bits, head.k_bits, head.v_bits}) <= 8 &&
                         g.grad_out_bits <= 16 && head.channels % 2 == 0 &&
                         !head.row_probabilities;
  return is_narrow ? backward_by_blocks(head, room, g) : backward_by_rows(head, room, g);
}
