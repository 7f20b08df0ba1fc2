// Attention a block of queries at a time, for narrow operands: all sums are products of pairs of
// int16. The same bits as row_loops.h.
//
// Include inside an anonymous namespace of mantissa::kernels, after row_loops.h and
// pair_products.h.

// to[c / 2][i] = the pair of the channels c and c + 1 of row i.
inline void pack_channel_pairs(const AttentionHead& head, const int16_t* from, int64_t columns,
                               int32_t* to) noexcept {
  for (int64_t c = 0; c < head.channels; c += 2, to += columns) {
    for (int64_t i = 0; i < head.valid_keys; ++i) to[i] = pair_at(from + i * head.channels + c);
    std::fill(to + head.valid_keys, to + columns, 0);
  }
}

inline int32_t pair_of(int16_t low, int16_t high) noexcept {
  return static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint16_t>(low)) |
                              static_cast<uint32_t>(high) << 16);
}

// to[i / 2][c] = the pair of the rows i and i + 1 of channel c, up to `rows` of them.
inline void pack_row_pairs(const int16_t* from, int64_t stride, int64_t columns, int64_t rows,
                           int64_t to_stride, int32_t* to) noexcept {
  for (int64_t i = 0; i < rows; i += 2, from += 2 * stride, to += to_stride) {
    if (i + 1 < rows) {
      for (int64_t c = 0; c < columns; ++c) to[c] = pair_of(from[c], from[stride + c]);
    } else {
      for (int64_t c = 0; c < columns; ++c) to[c] = pair_of(from[c], 0);
    }
    std::fill(to + columns, to + to_stride, 0);
  }
}

// to[c][i] = from[i][c], 0 after the queries.
inline void transpose_queries(const AttentionHead& head, const int16_t* from, int64_t stride,
                              int16_t* to) noexcept {
  for (int64_t c = 0; c < head.channels; ++c, to += stride) {
    for (int64_t i = 0; i < head.queries; ++i) to[i] = from[i * head.channels + c];
    std::fill(to + head.queries, to + stride, int16_t{0});
  }
}

// A block of queries, and the keys that they meet: from the first one's to the last one's, padded.
struct QueryBlock {
  int64_t begin, queries, first_key, keys;
  QueryBlock(const AttentionHead& head, int64_t begin_)
      : begin(begin_),
        queries(std::min(kQueryBlock, head.queries - begin_)),
        first_key(head.first_key_of(begin_) / kPadding * kPadding),
        keys(round_up(head.keys_of(begin_ + queries - 1) - first_key, kPadding)) {}

  // The room from the block's first key on.
  BlockRoom room_of(BlockRoom room) const {
    room.kt_pairs += first_key;
    room.v_pairs += first_key / 2 * room.channels;
    room.vt_pairs += first_key;
    room.k_pairs += first_key / 2 * room.channels;
    room.grad_kt += first_key;
    room.grad_vt += first_key;
    return room;
  }
};

// sums[query, key] = the products of the block's rows of `left`, [queries, channels].
inline void multiply_channels(const AttentionHead& head, const BlockRoom& room,
                              const QueryBlock& block, const int16_t* left, const int32_t* right,
                              int32_t* sums) noexcept {
  const PairFactors factors{left + block.begin * head.channels, head.channels, right, room.keys,
                            head.channels / 2};
  pair_products(factors, block.queries, block.keys, [&](int64_t row, int64_t column, Words words) {
    store_words(sums + row * room.keys + column, words);
  });
}

// Replaces the scores of the keys [begin, end) by their powers, as power_row; returns the sum.
// Before and behind them stand powers of 1.
inline int64_t power_lanes(int64_t score_scale, int shift, int64_t begin, int64_t end,
                           int64_t padded, int32_t* scores) noexcept {
  int32_t largest = scores[begin];
  for (int64_t j = begin + 1; j < end; ++j) largest = std::max(largest, scores[j]);
  std::fill(scores, scores + begin, largest);
  std::fill(scores + end, scores + padded, largest);
  const RoundEvenLanes round{RoundEven64(shift)};
  const Lanes scale = all(score_scale);
  Lanes sums = {};
  for (int64_t j = 0; j < padded; j += kWords) {
    const Words below = load_words(scores + j) - all_words(largest);
    const auto power = [&](Lanes difference) {
      return exp2_q30_lanes(UnsignedLanes{} - wrapping(round(product(difference, scale))));
    };
    const Lanes evens = power(evens_of(below)), odds = power(odds_of(below));
    sums += evens + odds;
    store_words(scores + j, interleaved(evens, odds));
  }
  return lane_sum(sums) - ((padded - (end - begin)) << 30);
}

// The probabilities of query i of the block, 0 before and after its keys; changes the scores.
inline void probability_lanes(const AttentionHead& head, const BlockRoom& room,
                              const QueryBlock& block, int64_t i) noexcept {
  const QueryKeys keys(head, block.begin + i);
  const int64_t begin = keys.begin - block.first_key, end = keys.end - block.first_key;
  const int64_t padded = block.keys;
  int32_t* const scores = room.scores + i * room.keys;
  int16_t* const p = room.p + i * room.keys;
  if (keys.empty()) return std::fill_n(p, padded, int16_t{0}), void();
  const bool has_bias = head.bias != nullptr;
  if (has_bias) add_bias(head, block.begin + i, keys, block.first_key, scores, scores);
  const int shift = has_bias ? 0 : head.shift_of(block.begin + i);
  const int64_t scale = has_bias ? 1 : head.scale;
  const int64_t sum = shift >= 0
                          ? power_lanes(scale, shift, begin, end, padded, scores)
                          : power_row(scale, shift, end - begin, scores + begin, scores + begin);
  // If it has 33 bits all powers but one are 0. That one is 127 of 2^-7 with 32 bits, too.
  const int64_t reciprocal = std::min<int64_t>((int64_t{1} << 62) / sum, UINT32_MAX);
  const Lanes factor = all(reciprocal), half = all(int64_t{1} << (kPowerShift - 1));
  for (int64_t j = 0; j < padded; j += kWords) {
    const Words powers = load_words(scores + j);
    const auto rounded = [&](Lanes power) {
      return as_signed(wrapping(unsigned_product(power, factor) + half) >> kPowerShift);
    };
    const Words words = interleaved(rounded(evens_of(powers)), rounded(odds_of(powers)));
    const Words most = all_words(kMostProbability);
    store_words(p + j, words > most ? most : words);
  }
  std::fill(p, p + begin, int16_t{0});
  std::fill(p + end, p + padded, int16_t{0});
}

inline void forward_by_blocks(const AttentionHead& head, std::byte* base, int64_t* out,
                              int64_t stride) noexcept {
  const BlockRoom whole(base, head.queries, head.keys, head.channels, false);
  pack_channel_pairs(head, head.k, whole.keys, whole.kt_pairs);
  std::fill_n(whole.v_pairs, whole.keys / 2 * whole.channels, 0);
  pack_row_pairs(head.v, head.channels, head.channels, head.valid_keys, whole.channels,
                 whole.v_pairs);
  for (int64_t begin = 0; begin < head.queries; begin += kQueryBlock) {
    const QueryBlock block(head, begin);
    const BlockRoom room = block.room_of(whole);
    multiply_channels(head, room, block, head.q, room.kt_pairs, room.scores);
    for (int64_t i = 0; i < block.queries; ++i) probability_lanes(head, room, block, i);
    // P adds up to at most 2^8, so sums of 16-bit values stay below 2^23.
    const PairFactors factors{room.p, room.keys, room.v_pairs, room.channels, block.keys / 2};
    pair_products(factors, block.queries, room.channels,
                  [&](int64_t row, int64_t column, Words words) {
                    int64_t* const to = out + (begin + row) * stride + column;
                    const int64_t count = std::min(kWords, head.channels - column);
                    for (int64_t c = 0; c < count; ++c) to[c] = words[c];
                  });
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
  const BlockRoom room(base, head.queries, head.keys, head.channels, true);
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

// Sums of 32 keys or queries, or of a head's channels, fit int32 for operands this narrow.
inline void forward(const AttentionHead& head, std::byte* room, int64_t* out,
                    int64_t stride) noexcept {
  const bool is_narrow = head.has_narrow_scores() && head.channels % 2 == 0;
  return is_narrow ? forward_by_blocks(head, room, out, stride)
                   : forward_by_rows(head, room, out, stride);
}

inline void backward(const AttentionHead& head, std::byte* room,
                     const AttentionGradient& g) noexcept {
  const bool is_narrow = std::max({head.q_bits, head.k_bits, head.v_bits}) <= 8 &&
                         g.grad_out_bits <= 16 && head.channels % 2 == 0;
  return is_narrow ? backward_by_blocks(head, room, g) : backward_by_rows(head, room, g);
}
