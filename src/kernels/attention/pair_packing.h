// Operands of attention as pairs of int16 that follow each other in a sum.
//
// Include inside an anonymous namespace of mantissa::kernels, after pair_products.h.

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

// n = high * 2^8 + low, with low from 0 to 255: sums of 256 products with 16 bits fit int32.
constexpr int kLowBits = 8;
template <typename T>
inline void split(const T* from, int64_t count, int16_t* low, int16_t* high) noexcept {
  for (int64_t i = 0; i < count; ++i) {
    low[i] = static_cast<int16_t>(from[i] & ((1 << kLowBits) - 1));
    high[i] = static_cast<int16_t>(from[i] >> kLowBits);
  }
}

// The sums of both digits: evens or odds of words.
inline Lanes joined(Lanes low, Lanes high) noexcept {
  return product(high, all(1 << kLowBits)) + product(low, all(1));
}

// to[c][i] = from[i][c], 0 after the queries.
inline void transpose_queries(const AttentionHead& head, const int16_t* from, int64_t stride,
                              int16_t* to) noexcept {
  for (int64_t c = 0; c < head.channels; ++c, to += stride) {
    for (int64_t i = 0; i < head.queries; ++i) to[i] = from[i * head.channels + c];
    std::fill(to + head.queries, to + stride, int16_t{0});
  }
}
