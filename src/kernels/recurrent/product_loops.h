// Products of recurrent layers, and the loops around them, for one instruction set.
//
// Include inside an anonymous namespace of mantissa::kernels, after gate_tables.h, lanes and
// round_even_loops.h.

constexpr int64_t kWords = 2 * kLanes;  // int32 in a vector

// Pairs of a left matrix's row, the last one perhaps of one term.
struct PairsOf {
  const int16_t* row;
  int64_t pair_step, full;  // full: how many have two
  Words operator()(int64_t p) const {
    const int16_t* const at = row + p * pair_step;
    if (p >= full) return all_words(static_cast<uint16_t>(at[0]));
    int32_t both;
    std::memcpy(&both, at, sizeof(both));
    return all_words(both);
  }
};

// A tile of `kRows` rows and `kVectors` vectors of columns. Blocks of pairs add up within int32.
template <int kRows, int kVectors>
inline void product_tile(const PairProducts& args, int64_t row, int64_t column) noexcept {
  const int64_t pairs = (args.depth + 1) / 2, block = std::max<int64_t>(1, args.block / 2);
  for (int64_t first = 0; first < pairs; first += block) {
    Words sums[kRows][kVectors] = {};
    const int64_t end = std::min(pairs, first + block);
    for (int64_t p = first; p < end; ++p) {
      const int16_t* const b = args.b + (p * args.columns + column) * 2;
      Words b_pairs[kVectors];
      for (int v = 0; v < kVectors; ++v)
        std::memcpy(&b_pairs[v], b + v * kWords * 2, sizeof(Words));
      for (int r = 0; r < kRows; ++r) {
        const PairsOf a{args.a + (row + r) * args.a_row, args.a_pair, args.depth / 2};
        const Words a_pair = a(p);
        for (int v = 0; v < kVectors; ++v)
          sums[r][v] = add_products(sums[r][v], a_pair, b_pairs[v]);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        int64_t* const to = args.sums + (row + r) * args.columns + column + v * kWords;
        int64_t wide[kWords];
        store_words(wide, sums[r][v]);
        for (int64_t i = 0; i < kWords; ++i) to[i] = first == 0 ? wide[i] : to[i] + wide[i];
      }
    }
  }
}

template <int kVectors>
inline void product_columns(const PairProducts& args, int64_t column) noexcept {
  constexpr int kRows = 4;
  int64_t row = 0;
  for (; row + kRows <= args.rows; row += kRows) product_tile<kRows, kVectors>(args, row, column);
  for (; row < args.rows; ++row) product_tile<1, kVectors>(args, row, column);
}

inline void products(const PairProducts& args) noexcept {
  if (args.depth == 0) return kRecurrentReference.products(args);
  constexpr int kVectors = kLanes == 8 ? 4 : 2;  // as many sums as registers allow
  int64_t column = 0;
  for (; column + kVectors * kWords <= args.columns; column += kVectors * kWords) {
    product_columns<kVectors>(args, column);
  }
  for (; column < args.columns; column += kWords) product_columns<1>(args, column);
}

// shift_right_rne by logical shifts, since AVX2 has no others of 64 bits; |n| < 2^61, shift in
// [0, 61].
inline int64_t round_even(int64_t n, int shift) noexcept {
  constexpr uint64_t kBias = uint64_t{1} << 62;
  const uint64_t is_shifted = shift > 0, half = (uint64_t{1} << shift) >> 1;
  const uint64_t odd = (static_cast<uint64_t>(n) >> shift) & is_shifted;
  const uint64_t biased = static_cast<uint64_t>(n) + half - is_shifted + odd + kBias;
  return static_cast<int64_t>((biased >> shift) - (kBias >> shift));
}

// A shift to the right or, if negative, to the left, as is_plain_shift allows it.
struct PlainShift {
  int right, left;
  explicit PlainShift(int shift) : right(std::max(shift, 0)), left(std::max(-shift, 0)) {}
  int64_t operator()(int64_t n) const {
    return round_even(static_cast<int64_t>(static_cast<uint64_t>(n) << left), right);
  }
};

inline int64_t clipped(int64_t n, int64_t limit) noexcept {
  const int64_t above = n < -limit ? -limit : n;
  return above > limit ? limit : above;
}

inline void add_output_gradient(ConstMantissaSpan output, int shift, const int32_t* carry,
                                int64_t count, int32_t* gradients) noexcept {
  if (!is_plain_shift(shift, kInputBits)) {
    return kRecurrentReference.add_output_gradient(output, shift, carry, count, gradients);
  }
  const PlainShift shifted(shift);
  with_wide_gradient_type(output.bits, [&](auto type) {
    const auto* numbers = output.as<decltype(type)>();
    for (int64_t j = 0; j < count; ++j) {
      gradients[j] = static_cast<int32_t>(clipped(carry[j] + shifted(numbers[j]), kGradientLimit));
    }
  });
}

inline void add_carry(const int64_t* sums, int shift, int64_t count, int32_t* carry) noexcept {
  if (!is_plain_shift(shift, kSumBits)) {
    return kRecurrentReference.add_carry(sums, shift, count, carry);
  }
  const PlainShift shifted(shift);
  for (int64_t j = 0; j < count; ++j) {
    carry[j] = static_cast<int32_t>(clipped(carry[j] + shifted(sums[j]), kGradientLimit));
  }
}

template <typename T>
inline uint64_t largest_of(const T* numbers, int64_t count) noexcept {
  int32_t low = 0, high = 0;
  for (int64_t i = 0; i < count; ++i) {
    low = numbers[i] < low ? numbers[i] : low;
    high = numbers[i] > high ? numbers[i] : high;
  }
  return std::max(magnitude(low), magnitude(high));
}

// |n| <= kGradientLimit, so a shift of 30 leaves nothing.
inline int32_t round_even_short(int32_t n, int shift) noexcept {
  const int32_t is_shifted = shift > 0, below_half = (int32_t{1} << shift >> 1) - is_shifted;
  return (n + below_half + ((n >> shift) & is_shifted)) >> shift;
}

inline int16_t narrow(int32_t n, const RoundEven32& round, int32_t limit) noexcept {
  const int32_t rounded = round(n), above = rounded < -limit ? -limit : rounded;
  return static_cast<int16_t>(above > limit ? limit : above);
}

inline int shorten(const int32_t* gradients, const int32_t* shifts, int64_t count,
                   int16_t* to) noexcept {
  int32_t low = 0, high = 0;
  for (int64_t k = 0; k < count; ++k) {
    const int32_t n = round_even_short(gradients[k], std::min(shifts[k], 30));
    low = n < low ? n : low;
    high = n > high ? n : high;
  }
  const int shift = exact_shift(std::max(magnitude(low), magnitude(high)), kShortGradientBits + 1);
  const RoundEven32 round(shift);
  const auto limit = static_cast<int32_t>(mantissa_limit(kShortGradientBits + 1));
  for (int64_t k = 0; k < count; ++k) {
    to[k] = narrow(round_even_short(gradients[k], std::min(shifts[k], 30)), round, limit);
  }
  return shift;
}

template <bool kHasOdd, typename T>
inline void pair_rows(const T* even, const T* odd, int64_t count, const RoundEven32& round,
                      int32_t limit, int16_t* __restrict to) noexcept {
  for (int64_t i = 0; i < count; ++i) {
    to[2 * i] = narrow(even[i], round, limit);
    to[2 * i + 1] = kHasOdd ? narrow(odd[i], round, limit) : int16_t{0};
  }
}

template <typename T>
inline void pair_rows(const T* even, const T* odd, int64_t count, int shift, int bits,
                      int16_t* to) noexcept {
  const RoundEven32 round(std::min(shift, 30));
  const auto limit = static_cast<int32_t>(mantissa_limit(bits + 1));
  if (odd == nullptr) return pair_rows<false>(even, even, count, round, limit, to);
  pair_rows<true>(even, odd, count, round, limit, to);
}
