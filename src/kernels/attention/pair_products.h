// Matrix products of pairs of int16, by add_products of lanes/.
//
// Include inside an anonymous namespace of mantissa::kernels, after lanes/arithmetic.h.

constexpr int64_t kWords = 2 * kLanes;

// The rows of the left factor, [rows, 2 * pairs], and the right one, [pairs, columns]: one int32
// for the two numbers of a column that a pair of the left meets.
struct PairFactors {
  const int16_t* left;
  int64_t left_stride;
  const int32_t* right;
  int64_t right_stride;
  int64_t pairs;
};

// to += the words, shifted; `count` of them.
inline void add_words(Words words, int shift, int64_t count, int64_t* to) noexcept {
  int32_t apart[kWords];
  store_words(apart, words);
  if (count < kWords) {
    for (int64_t i = 0; i < count; ++i) to[i] += apart[i] * (int64_t{1} << shift);
    return;
  }
  const UnsignedLanes left = wrapping(all(shift));
  for (int64_t i = 0; i < kWords; i += kLanes) {
    const Lanes sum = load(to + i) + as_signed(wrapping(load(apart + i)) << left);
    std::memcpy(to + i, &sum, sizeof(sum));
  }
}

inline int32_t pair_at(const int16_t* numbers) noexcept {
  int32_t pair;
  std::memcpy(&pair, numbers, sizeof(pair));
  return pair;
}

template <int kRows, int kVectors, typename Sink>
inline void product_tile(const PairFactors& f, int64_t row, int64_t column,
                         const Sink& sink) noexcept {
  // Set one by one: g++ 12 clears the memory of arrays by rep stos, which is slow.
  Words sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sums[r][v] = Words{};
  }
  const int16_t* left = f.left + row * f.left_stride;
  const int32_t* right = f.right + column;
  for (int64_t pair = 0; pair < f.pairs; ++pair, left += 2, right += f.right_stride) {
    Words columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = load_words(right + v * kWords);
    for (int r = 0; r < kRows; ++r) {
      const Words factor = all_words(pair_at(left + r * f.left_stride));
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = add_products(sums[r][v], factor, columns[v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sink(row + r, column + v * kWords, sums[r][v]);
  }
}

template <int kVectors, typename Sink>
inline void product_columns(const PairFactors& f, int64_t rows, int64_t column,
                            const Sink& sink) noexcept {
  constexpr int kRows = 4;
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows) product_tile<kRows, kVectors>(f, row, column, sink);
  for (; row < rows; ++row) product_tile<1, kVectors>(f, row, column, sink);
}

// Calls sink(row, column, sums) with the kWords sums from each row and column on; columns are a
// multiple of kPadding. Sums that do not fit int32 wrap around.
template <typename Sink>
inline void pair_products(const PairFactors& f, int64_t rows, int64_t columns,
                          const Sink& sink) noexcept {
  constexpr int kWide = kHas64BitLanes ? 4 : 2;  // as many as registers hold with four rows
  int64_t column = 0;
  for (; column + kWide * kWords <= columns; column += kWide * kWords) {
    product_columns<kWide>(f, rows, column, sink);
  }
  for (; column < columns; column += kWords) product_columns<1>(f, rows, column, sink);
}
