// Scores and probabilities of attention, a block of queries at a time. The same bits as
// row_loops.h.
//
// Include inside an anonymous namespace of mantissa::kernels, after row_loops.h, pair_packing.h and
// lanes/exp2.h.

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

// The scores of the block, in two digits if they leave int32.
inline void multiply_queries(const AttentionHead& head, const BlockRoom& room,
                             const QueryBlock& block) noexcept {
  const bool is_wide = !head.has_narrow_scores();
  multiply_channels(head, room, block, is_wide ? room.q_low : head.q, room.kt_pairs, room.scores);
  if (!is_wide) return;
  multiply_channels(head, room, block, room.q_high, room.kt_pairs, room.high_scores);
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

// The powers of the scores of query i, in their place; returns the sum.
inline int64_t narrow_powers(const AttentionHead& head, const QueryBlock& block, int64_t i,
                             const QueryKeys& keys, int32_t* scores) noexcept {
  const int64_t begin = keys.begin - block.first_key, end = keys.end - block.first_key;
  const bool has_bias = head.bias != nullptr;
  if (has_bias) add_bias(head, block.begin + i, keys, block.first_key, scores, scores);
  const int shift = has_bias ? 0 : head.shift_of(block.begin + i);
  const int64_t scale = has_bias ? 1 : head.scale;
  if (shift >= 0) return power_lanes(scale, shift, begin, end, block.keys, scores);
  return power_row(scale, shift, end - begin, scores + begin, scores + begin);
}

// The largest of numbers in two digits; there is one at least.
inline int64_t largest_of_digits(const int32_t* high, const int32_t* low, int64_t count) noexcept {
  int64_t largest = INT64_MIN, j = 0;
  Lanes most = all(largest);
  for (; j + kWords <= count; j += kWords) {
    const Words lows = load_words(low + j), highs = load_words(high + j);
    const Lanes evens = joined(evens_of(lows), evens_of(highs));
    const Lanes odds = joined(odds_of(lows), odds_of(highs));
    const Lanes larger = evens > odds ? evens : odds;
    most = larger > most ? larger : most;
  }
  for (; j < count; ++j) largest = std::max(largest, high[j] * int64_t{1 << kLowBits} + low[j]);
  for (int64_t lane = 0; lane < kLanes; ++lane) largest = std::max(largest, most[lane]);
  return largest;
}

// Replaces the scores in two digits of the keys [begin, end) by their powers, in the place of the
// lower ones; returns the sum.
inline int64_t wide_power_lanes(int64_t score_scale, int shift, int64_t begin, int64_t end,
                                const int32_t* high, int32_t* low) noexcept {
  const auto whole = [&](int64_t j) { return high[j] * int64_t{1 << kLowBits} + low[j]; };
  const int64_t largest = largest_of_digits(high + begin, low + begin, end - begin);
  const RoundEvenLanes round{RoundEven64(shift)};
  const Lanes scale = all(score_scale), most = all(largest);
  const auto power = [&](Lanes lows, Lanes highs) {
    const Lanes below = joined(lows, highs) - most;
    return exp2_q30_lanes(UnsignedLanes{} - wrapping(round(below * scale)));
  };
  int64_t j = begin;
  Lanes sums = {};
  for (; j + kWords <= end; j += kWords) {
    const Words lows = load_words(low + j), highs = load_words(high + j);
    const Lanes evens = power(evens_of(lows), evens_of(highs));
    const Lanes odds = power(odds_of(lows), odds_of(highs));
    sums += evens + odds;
    store_words(low + j, interleaved(evens, odds));
  }
  int64_t sum = lane_sum(sums);
  for (; j < end; ++j) {
    const int64_t below = (whole(j) - largest) * score_scale;
    sum += low[j] = static_cast<int32_t>(exp2_q30(rescale_rne(below, shift)));
  }
  return sum;
}

// As narrow_powers, of scores in two digits, in the place of the lower ones.
inline int64_t wide_powers(const AttentionHead& head, const BlockRoom& room,
                           const QueryBlock& block, int64_t i, const QueryKeys& keys) noexcept {
  const int64_t begin = keys.begin - block.first_key, end = keys.end - block.first_key;
  int32_t* const low = room.scores + i * room.keys;
  const int32_t* const high = room.high_scores + i * room.keys;
  const int shift = head.shift_of(block.begin + i);
  if (head.bias == nullptr && shift >= 0) {
    return wide_power_lanes(head.scale, shift, begin, end, high, low);
  }
  for (int64_t j = begin; j < end; ++j) {
    room.wide_scores[j] = high[j] * int64_t{1 << kLowBits} + low[j];
  }
  if (head.bias == nullptr) {
    return power_row(head.scale, shift, end - begin, room.wide_scores + begin, low + begin);
  }
  add_bias(head, block.begin + i, keys, block.first_key, room.wide_scores, low);
  return power_row(1, 0, end - begin, low + begin, low + begin);
}

// Probabilities relative to the largest, from `padded` powers. Returns the reciprocal of their sum.
inline int64_t row_probability_lanes(int64_t padded, const int32_t* powers, int16_t* p) noexcept {
  const Lanes most = all(kMostProbability);
  const auto probability = [&](Lanes power) {
    const UnsignedLanes wide = wrapping(unsigned_product(power, most));
    return as_signed((wide + (1 << 29)) >> 30);
  };
  Words sums = {};  // at most 2^7 for each of 2^16 keys
  for (int64_t j = 0; j < padded; j += kWords) {
    const Words power = load_words(powers + j);
    const Words words = interleaved(probability(evens_of(power)), probability(odds_of(power)));
    sums += words;
    store_words(p + j, words);
  }
  int64_t sum = 0;
  for (int64_t word = 0; word < kWords; ++word) sum += sums[word];
  return ref_row_reciprocal(sum);
}

// Replaces P of a row by its part of their sum, as ref_row_share. The reciprocal has 47 bits, so
// its upper and lower words are multiplied apart.
inline void share_lanes(int64_t reciprocal, int64_t padded, int16_t* p) noexcept {
  const Lanes low = all(reciprocal & UINT32_MAX), high = all(reciprocal >> 32);
  const auto share = [&](Lanes probability) {
    const UnsignedLanes below = wrapping(unsigned_product(probability, low));
    return unsigned_product(probability, high) +
           as_signed((below + (uint64_t{1} << 31)) >> 32);
  };
  const Words most = all_words((1 << REF_GRADIENT_PROBABILITY_BITS) - 1);
  for (int64_t j = 0; j < padded; j += kWords) {
    const Words words = load_words(p + j);
    const Words shares = interleaved(share(evens_of(words)), share(odds_of(words)));
    store_words(p + j, shares > most ? most : shares);
  }
}

// The probabilities of query i of the block, 0 before and after its keys; changes the scores.
// Returns the reciprocal of their sum if they are relative to the largest.
inline int64_t probability_lanes(const AttentionHead& head, const BlockRoom& room,
                                 const QueryBlock& block, int64_t i) noexcept {
  const QueryKeys keys(head, block.begin + i);
  const int64_t begin = keys.begin - block.first_key, end = keys.end - block.first_key;
  const int64_t padded = block.keys;
  int32_t* const scores = room.scores + i * room.keys;
  int16_t* const p = room.p + i * room.keys;
  if (keys.empty()) return std::fill_n(p, padded, int16_t{0}), 0;
  const int64_t sum = head.has_narrow_scores() ? narrow_powers(head, block, i, keys, scores)
                                               : wide_powers(head, room, block, i, keys);
  if (head.row_probabilities) {
    std::fill(scores, scores + begin, 0);
    std::fill(scores + end, scores + padded, 0);
    return row_probability_lanes(padded, scores, p);
  }
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
  return 0;
}
