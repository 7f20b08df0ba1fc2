// Arithmetic on vectors of int64, written once for every instruction set. Where one has no product
// of 64-bit lanes, as AVX2, products are put together from factors of 32 bits, and arithmetic
// shifts are logical ones of n + 2^63.
//
// Include inside an anonymous namespace of mantissa::kernels, after round_even_loops.h and the
// set's lanes of integers.

// Sums and left shifts that may wrap are unsigned.
inline UnsignedLanes wrapping(Lanes lanes) noexcept {
  return reinterpret_cast<UnsignedLanes>(lanes);
}
inline Lanes as_signed(UnsignedLanes lanes) noexcept { return reinterpret_cast<Lanes>(lanes); }

inline Lanes all(int64_t value) noexcept { return value - Lanes{}; }

inline int64_t lane_sum(Lanes lanes) noexcept {
  int64_t sum = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
  return sum;
}

inline Words all_words(int32_t value) noexcept { return value - Words{}; }

// Lanes whose low 32 bits are the words of even or odd index, the others anything: for products.
inline Lanes evens_of(Words words) noexcept { return reinterpret_cast<Lanes>(words); }
inline Lanes odds_of(Words words) noexcept {
  return as_signed(reinterpret_cast<UnsignedLanes>(words) >> 32);
}

// (n + addend) >> shift if the sum fits int64. Intel shifts by a vector's counts in half the
// micro-operations of a shift by one count for all.
struct ShiftRight {
  UnsignedLanes shift, addend, bias, back;

  ShiftRight(int64_t addend_, int shift_)
      : shift(wrapping(all(shift_))),
        addend(wrapping(all(addend_))),
        bias(addend + wrapping(all(INT64_MIN))),
        back(wrapping(all(INT64_MIN)) >> shift) {}
  Lanes operator()(UnsignedLanes n) const {
    if constexpr (kHas64BitLanes) return as_signed(n + addend) >> as_signed(shift);
    return as_signed(((n + bias) >> shift) - back);
  }
};

// RoundEven64 on lanes; |n| < 2^62.
struct RoundEvenLanes {
  ShiftRight shift_right;
  UnsignedLanes odd;

  explicit RoundEvenLanes(const RoundEven64& round)
      : shift_right(round.below_half, round.shift), odd(wrapping(all(round.odd))) {}
  Lanes operator()(Lanes lanes) const { return shift_right(towards_even(lanes)); }
  // Only a shift is left to do.
  UnsignedLanes biased(Lanes lanes) const { return towards_even(lanes) + shift_right.addend; }

 private:
  UnsignedLanes towards_even(Lanes lanes) const {
    const UnsignedLanes n = wrapping(lanes);
    return n + ((n >> shift_right.shift) & odd);
  }
};
