// Attention a block of queries at a time: all sums are products of pairs of int16. The same bits as
// row_loops.h.
//
// Include inside an anonymous namespace of mantissa::kernels, after few_queries.h and
// block_gradients.h.

// out = the sums of P v of the block, as many products at a time as int32 holds exactly.
inline void multiply_values(const AttentionHead& head, const BlockRoom& room,
                            const QueryBlock& block, int64_t* out, int64_t stride) noexcept {
  for (int64_t i = 0; i < block.queries; ++i) std::fill_n(out + i * stride, head.channels, 0);
  for (int64_t first = 0; first < block.keys; first += kExactKeys) {
    const PairFactors factors{room.p + first, room.keys,
                              room.v_pairs + first / 2 * room.channels, room.channels,
                              std::min(kExactKeys, block.keys - first) / 2};
    pair_products(factors, block.queries, room.channels,
                  [&](int64_t row, int64_t column, Words words) {
                    add_words(words, 0, std::min(kWords, head.channels - column),
                              out + row * stride + column);
                  });
  }
}

inline void forward_by_blocks(const AttentionHead& head, std::byte* base, int64_t* out,
                              int64_t stride) noexcept {
  const bool is_wide = !head.has_narrow_scores();
  const BlockRoom whole(base, head.queries, head.keys, head.channels, false, is_wide);
  if (is_wide) split(head.q, head.queries * head.channels, whole.q_low, whole.q_high);
  pack_channel_pairs(head, head.k, whole.keys, whole.kt_pairs);
  std::fill_n(whole.v_pairs, whole.keys / 2 * whole.channels, 0);
  pack_row_pairs(head.v, head.channels, head.channels, head.valid_keys, whole.channels,
                 whole.v_pairs);
  for (int64_t begin = 0; begin < head.queries; begin += kQueryBlock) {
    const QueryBlock block(head, begin);
    const BlockRoom room = block.room_of(whole);
    multiply_queries(head, room, block);
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

inline void forward(const AttentionHead& head, std::byte* room, int64_t* out,
                    int64_t stride) noexcept {
  if (head.channels % 2 == 0 && head.queries <= kFewQueries) {
    return forward_few(head, room, out, stride);
  }
  return head.channels % 2 == 0 ? forward_by_blocks(head, room, out, stride)
                                : forward_by_rows(head, room, out, stride);
}

inline void backward(const AttentionHead& head, std::byte* room,
                     const AttentionGradient& g) noexcept {
  return is_by_blocks(head, g) ? backward_by_blocks(head, room, g) : backward_by_rows(head, room, g);
}
