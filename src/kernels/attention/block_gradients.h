// The gradients of attention, a block of queries at a time. The same bits as row_loops.h.
//
// Include inside an anonymous namespace of mantissa::kernels, after block_scores.h.

// How factors are cut into digits, so that sums of their products fit int32: sums over a block's
// queries, over a head's channels, or over `keys_at_once` keys.
struct GradientDigits {
  int of_grad_out, of_scores;
  int score_bits;        // of a digit of the scores' gradients
  int64_t keys_at_once;  // even

  explicit GradientDigits(const AttentionHead& head)
      : of_grad_out(has_narrow_gradients(head) ? 1 : 2),
        of_scores(has_narrow_gradients(head) ? 2 : 3),
        score_bits(of_scores == 2 ? 16 : 11),
        keys_at_once(of_scores == 2 ? 256 : 64) {}
};

// grad_p of a block: the products of grad_out and v, rounded.
inline void multiply_gradients(const AttentionHead& head, const BlockRoom& room,
                               const AttentionGradient& g, const GradientDigits& digits,
                               const QueryBlock& block) noexcept {
  multiply_channels(head, room, block, room.grad_out[0], room.vt_pairs, room.grad_p);
  if (digits.of_grad_out == 1) return;
  multiply_channels(head, room, block, room.grad_out[1], room.vt_pairs, room.high_scores);
  const RoundEvenLanes round{RoundEven64(g.grad_p_shift)};
  for (int64_t i = 0; i < block.queries; ++i) {
    int32_t* const low = room.grad_p + i * room.keys;
    const int32_t* const high = room.high_scores + i * room.keys;
    for (int64_t j = 0; j < block.keys; j += kWords) {
      const Words lows = load_words(low + j), highs = load_words(high + j);
      store_words(low + j, interleaved(round(joined(evens_of(lows), evens_of(highs))),
                                       round(joined(odds_of(lows), odds_of(highs)))));
    }
  }
}

// The digits of words, of score_bits each, from the lowest on. Returns the highest.
inline Words store_digits(const GradientDigits& digits, Words words, int64_t at,
                          int16_t* const* to) noexcept {
  const int bits = digits.score_bits;
  const Words half = all_words(1 << (bits - 1));
  for (int i = 0; i + 1 < digits.of_scores; ++i) {
    const Words rest = (words + half) >> bits;
    store_words(to[i] + at, words - (rest << bits));
    words = rest;
  }
  store_words(to[digits.of_scores - 1] + at, words);
  return words;
}

// The gradients of the scores of row i of the block, in digits. Returns bits that are 0 if all of
// the highest digits are.
inline Words gradient_lanes(const AttentionHead& head, const BlockRoom& room,
                           const AttentionGradient& g, const GradientDigits& digits, int64_t padded,
                           int64_t i) noexcept {
  const int16_t* const p = room.p + i * room.keys;
  const int32_t* const grad_p = room.grad_p + i * room.keys;
  Lanes row_terms = {};
  for (int64_t j = 0; j < padded; j += kWords) {
    const Words probability = load_words(p + j), gradient = load_words(grad_p + j);
    row_terms += product(evens_of(probability), evens_of(gradient)) +
                 product(odds_of(probability), odds_of(gradient));
  }
  int64_t row_term = lane_sum(row_terms);
  const bool is_relative = head.row_probabilities;
  if (is_relative) row_term = shift_right_rne(row_term, REF_GRADIENT_PROBABILITY_BITS);
  const RoundEvenLanes round{RoundEven64(g.shift)};
  const Lanes scale = all(g.scale), one = all(is_relative ? 1 : 1 << kProbabilityBits),
              term = all(row_term);
  Words highest = {};
  for (int64_t j = 0; j < padded; j += kWords) {
    const Words probability = load_words(p + j), gradient = load_words(grad_p + j);
    const auto of_score = [&](Lanes probabilities, Lanes gradients) {
      return round(product(probabilities, scale) * (product(gradients, one) - term));
    };
    const Words scores = interleaved(of_score(evens_of(probability), evens_of(gradient)),
                                     of_score(odds_of(probability), odds_of(gradient)));
    highest |= store_digits(digits, scores, i * room.keys + j, room.grad_scores);
  }
  return highest;
}

inline void add_bias_gradient_lanes(const AttentionHead& head, const BlockRoom& room,
                                    const AttentionGradient& g, const GradientDigits& digits,
                                    const QueryBlock& block, int64_t i) noexcept {
  const int64_t first = i * room.keys - block.first_key;
  add_bias_gradient(head, block.begin + i, QueryKeys(head, block.begin + i), g.grad_bias,
                    [&](int64_t key) {
                      int64_t sum = 0;
                      for (int d = 0; d < digits.of_scores; ++d) {
                        sum += int64_t{room.grad_scores[d][first + key]} *
                               (int64_t{1} << d * digits.score_bits);
                      }
                      return sum;
                    });
}

// sums[c][key] += the block's products of left, [channels, queries], and pairs of queries, shifted.
inline void add_query_products(const AttentionHead& head, const BlockRoom& room,
                               const QueryBlock& block, const int16_t* left, const int32_t* pairs,
                               int shift, int64_t* sums) noexcept {
  const PairFactors factors{left + block.begin, room.queries, pairs, room.keys,
                            divide_up<int64_t>(block.queries, 2)};
  pair_products(factors, head.channels, block.keys, [&](int64_t row, int64_t column, Words words) {
    add_words(words, shift, kWords, sums + row * room.keys + column);
  });
}

// Adds the block's part to the gradients of keys and values.
inline void add_key_gradients(const AttentionHead& head, const BlockRoom& room,
                              const GradientDigits& digits, const QueryBlock& block) noexcept {
  const auto pack = [&](const int16_t* from, int32_t* to) {
    pack_row_pairs(from, room.keys, block.keys, block.queries, room.keys, to);
  };
  pack(room.p, room.p_pairs);
  for (int d = 0; d < digits.of_grad_out; ++d) {
    add_query_products(head, room, block, room.grad_out_t[d], room.p_pairs, d * kLowBits,
                       room.grad_vt);
  }
  for (int d = 0; d < digits.of_scores; ++d) {
    pack(room.grad_scores[d], room.score_pairs[d]);
    add_query_products(head, room, block, room.qt, room.score_pairs[d], d * digits.score_bits,
                       room.grad_kt);
  }
}

// The gradient of the block's queries.
inline void write_query_gradients(const AttentionHead& head, const BlockRoom& room,
                                  const AttentionGradient& g, const GradientDigits& digits,
                                  const QueryBlock& block) noexcept {
  for (int64_t i = 0; i < block.queries; ++i) {
    std::fill_n(g.grad_q + (block.begin + i) * g.stride, head.channels, int64_t{0});
  }
  for (int64_t key = 0; key < block.keys; key += digits.keys_at_once) {
    const int64_t keys = std::min(digits.keys_at_once, block.keys - key);
    for (int d = 0; d < digits.of_scores; ++d) {
      const PairFactors factors{room.grad_scores[d] + key, room.keys,
                                room.k_pairs + key / 2 * room.channels, room.channels, keys / 2};
      const int shift = d * digits.score_bits;
      pair_products(factors, block.queries, room.channels,
                    [&](int64_t row, int64_t column, Words words) {
                      add_words(words, shift, std::min(kWords, head.channels - column),
                                g.grad_q + (block.begin + row) * g.stride + column);
                    });
    }
  }
}

inline void backward_block(const AttentionHead& head, const BlockRoom& room,
                           const AttentionGradient& g, const GradientDigits& digits,
                           const QueryBlock& block) noexcept {
  multiply_queries(head, room, block);
  for (int64_t i = 0; i < block.queries; ++i) {
    const int64_t reciprocal = probability_lanes(head, room, block, i);
    if (head.row_probabilities) share_lanes(reciprocal, block.keys, room.p + i * room.keys);
  }
  multiply_gradients(head, room, g, digits, block);
  Words highest = {};
  for (int64_t i = 0; i < block.queries; ++i) {
    highest |= gradient_lanes(head, room, g, digits, block.keys, i);
    if (g.grad_bias != nullptr) add_bias_gradient_lanes(head, room, g, digits, block, i);
  }
  // Gradients are rarely as large as the digits allow for.
  GradientDigits used = digits;
  if (all_zero(highest)) --used.of_scores;
  add_key_gradients(head, room, used, block);
  write_query_gradients(head, room, g, used, block);
}

// Copies of the operands, as the products read them.
inline void pack_for_gradients(const AttentionHead& head, const BlockRoom& room,
                               const AttentionGradient& g, const GradientDigits& digits) noexcept {
  const int64_t count = head.queries * head.channels;
  if (!head.has_narrow_scores()) split(head.q, count, room.q_low, room.q_high);
  pack_channel_pairs(head, head.k, room.keys, room.kt_pairs);
  pack_channel_pairs(head, head.v, room.keys, room.vt_pairs);
  std::fill_n(room.k_pairs, room.keys / 2 * room.channels, 0);
  pack_row_pairs(head.k, head.channels, head.channels, head.valid_keys, room.channels,
                 room.k_pairs);
  if (digits.of_grad_out == 2) {
    split(g.grad_out, count, room.grad_out[0], room.grad_out[1]);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      room.grad_out[0][i] = static_cast<int16_t>(g.grad_out[i]);
    }
  }
  transpose_queries(head, head.q, room.queries, room.qt);
  for (int d = 0; d < digits.of_grad_out; ++d) {
    transpose_queries(head, room.grad_out[d], room.queries, room.grad_out_t[d]);
  }
}

// Whether all sums of products fit int32: operands have 16 bits at most, and so has grad_p, by its
// shift, its 31.
inline bool is_by_blocks(const AttentionHead& head, const AttentionGradient& g) noexcept {
  const int narrow_shift = has_narrow_gradients(head) ? g.grad_p_shift : 0;
  const int channel_bits = bit_length(static_cast<uint64_t>(head.channels - 1));
  const int grad_p_bits = g.grad_out_bits - 1 + head.v_bits - 1 + channel_bits - g.grad_p_shift;
  return g.grad_out_bits <= 16 && head.channels % 2 == 0 && narrow_shift == 0 && grad_p_bits <= 30;
}

inline void backward_by_blocks(const AttentionHead& head, std::byte* base,
                               const AttentionGradient& g) noexcept {
  const GradientDigits digits(head);
  const BlockRoom room(base, head.queries, head.keys, head.channels, true,
                       !has_narrow_gradients(head));
  pack_for_gradients(head, room, g, digits);
  std::fill_n(room.grad_kt, head.channels * room.keys, int64_t{0});
  std::fill_n(room.grad_vt, head.channels * room.keys, int64_t{0});
  for (int64_t begin = 0; begin < head.queries; begin += kQueryBlock) {
    const QueryBlock block(head, begin);
    backward_block(head, block.room_of(room), g, digits, block);
  }
  write_key_gradients(head, g, room.grad_kt, room.keys, g.grad_k);
  write_key_gradients(head, g, room.grad_vt, room.keys, g.grad_v);
}
