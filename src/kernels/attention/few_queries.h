// Attention of few queries, as when a text goes on token by token: keys and values are read as they
// lie, since packing all of them takes longer than their products. The same bits as row_loops.h.
//
// Include inside an anonymous namespace of mantissa::kernels, after block_scores.h.

constexpr int64_t kFewQueries = 4;

// to = the numbers at another exponent. All fit 16 bits there, so a shift to the left is at most 8.
template <typename T>
inline void align_row(const T* from, int shift, int64_t channels, int16_t* to) noexcept {
  if (shift <= 0) {
    const int factor = 1 << -shift;
    for (int64_t c = 0; c < channels; ++c) to[c] = static_cast<int16_t>(from[c] * factor);
  } else if (shift >= 16) {
    std::fill_n(to, channels, int16_t{0});
  } else {
    const int below_half = (1 << (shift - 1)) - 1;
    for (int64_t c = 0; c < channels; ++c) {
      const int n = from[c];
      to[c] = static_cast<int16_t>((n + below_half + ((n >> shift) & 1)) >> shift);
    }
  }
}

inline void align(const AttentionKeys& keys) noexcept {
  const auto align_rows = [&](const auto* from) {
    for (int64_t i = 0; i < keys.rows; ++i) {
      const int shift = keys.exponents == nullptr ? 0 : keys.exponent - keys.exponents[i];
      align_row(from + i * keys.stride, shift, keys.channels, keys.to + i * keys.channels);
    }
  };
  if (keys.from.bits <= 8) return align_rows(keys.from.as<int8_t>());
  align_rows(keys.from.as<int16_t>());
}

// The sum of products of two rows; their channels are even.
inline int32_t row_product(const int16_t* a, const int16_t* b, int64_t channels) noexcept {
  Words sums = {};
  int64_t c = 0;
  for (; c + 2 * kWords <= channels; c += 2 * kWords) {
    sums = add_products(sums, reinterpret_cast<Words>(load_halves(a + c)),
                        reinterpret_cast<Words>(load_halves(b + c)));
  }
  int32_t sum = 0;
  for (; c < channels; ++c) sum += a[c] * b[c];
  for (int64_t word = 0; word < kWords; ++word) sum += sums[word];
  return sum;
}

// The scores of the block with its keys; behind the last key stands 0.
inline void score_few(const AttentionHead& head, const QueryBlock& block, const int16_t* queries,
                      int64_t stride, int32_t* scores) noexcept {
  const int64_t keys = std::min(block.keys, head.valid_keys - block.first_key);
  const int16_t* const k = head.k + block.first_key * head.channels;
  for (int64_t i = 0; i < block.queries; ++i, scores += stride) {
    const int16_t* const q = queries + (block.begin + i) * head.channels;
    for (int64_t j = 0; j < keys; ++j) {
      scores[j] = row_product(q, k + j * head.channels, head.channels);
    }
    std::fill(scores + keys, scores + block.keys, 0);
  }
}

// out += the sums of P v over the keys [first, end), which int32 holds; kVectors vectors of
// channels.
template <int kVectors>
inline void add_values(const AttentionHead& head, const int16_t* p, const int16_t* v,
                       int64_t count, int64_t* out) noexcept {
  Words sums[kVectors] = {};
  for (int64_t j = 0; j < count; ++j, v += head.channels) {
    const Words factor = all_words(p[j]);
    for (int i = 0; i < kVectors; ++i) sums[i] += factor * load_words(v + i * kWords);
  }
  for (int i = 0; i < kVectors; ++i) add_words(sums[i], 0, kWords, out + i * kWords);
}

// out = the sums of P v of a query's row.
inline void value_few(const AttentionHead& head, const QueryBlock& block, const int16_t* p,
                      int64_t* out) noexcept {
  std::fill_n(out, head.channels, int64_t{0});
  const int64_t keys = std::min(block.keys, head.valid_keys - block.first_key);
  for (int64_t first = 0; first < keys; first += kExactKeys) {
    const int64_t count = std::min(kExactKeys, keys - first);
    const int16_t* const v = head.v + (block.first_key + first) * head.channels;
    int64_t c = 0;
    for (; c + 4 * kWords <= head.channels; c += 4 * kWords) {
      add_values<4>(head, p + first, v + c, count, out + c);
    }
    for (; c + kWords <= head.channels; c += kWords) {
      add_values<1>(head, p + first, v + c, count, out + c);
    }
    for (; c < head.channels; ++c) {
      int32_t sum = 0;
      for (int64_t j = 0; j < count; ++j) sum += p[first + j] * v[j * head.channels + c];
      out[c] += sum;
    }
  }
}

inline void forward_few(const AttentionHead& head, std::byte* base, int64_t* out,
                        int64_t stride) noexcept {
  const bool is_wide = !head.has_narrow_scores();
  const BlockRoom room(base, head.queries, head.keys, head.channels, false, is_wide);
  if (is_wide) split(head.q, head.queries * head.channels, room.q_low, room.q_high);
  const QueryBlock block(head, 0);
  score_few(head, block, is_wide ? room.q_low : head.q, room.keys, room.scores);
  if (is_wide) score_few(head, block, room.q_high, room.keys, room.high_scores);
  for (int64_t i = 0; i < block.queries; ++i, out += stride) {
    const int64_t reciprocal = probability_lanes(head, room, block, i);
    value_few(head, block, room.p + i * room.keys, out);
    for (int64_t c = 0; head.row_probabilities && c < head.channels; ++c) {
      out[c] = ref_row_mean(out[c], reciprocal);
    }
  }
}
