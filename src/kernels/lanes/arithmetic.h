// Arithmetic on vectors of int64, written once for every instruction set. Where one has no product
// of 64-bit lanes, as AVX2, products are put together from factors of 32 bits, and arithmetic
// shifts are logical ones of n + 2^63.
//
// Include inside an anonymous namespace of mantissa::kernels, after round_even_loops.h and avx2.h
// or avx512vnni.h, where these are defined: Lanes, UnsignedLanes, kLanes; load(pointer), sign
// extended; store(to, lanes), the low bits; product(a, b) and unsigned_product(a, b) of the lanes'
// low 32 bits; kHas64BitLanes, whether there are a product and an arithmetic shift of them.

// Sums and left shifts that may wrap are unsigned.
inline UnsignedLanes wrapping(Lanes lanes) noexcept {
  return reinterpret_cast<UnsignedLanes>(lanes);
}
inline Lanes as_signed(UnsignedLanes lanes) noexcept { return reinterpret_cast<Lanes>(lanes); }

inline Lanes all(int64_t value) noexcept { return value - Lanes{}; }

// (n + addend) >> shift where the sum fits int64.
struct ShiftRight {
  int shift;
  UnsignedLanes addend, bias, back;

  ShiftRight(int64_t addend_, int shift_)
      : shift(shift_),
        addend(wrapping(all(addend_))),
        bias(addend + wrapping(all(INT64_MIN))),
        back(wrapping(all(INT64_MIN)) >> shift) {}
  Lanes operator()(UnsignedLanes n) const {
    if constexpr (kHas64BitLanes) return as_signed(n + addend) >> shift;
    return as_signed(((n + bias) >> shift) - back);
  }
};

// RoundEven64 on lanes; |n| < 2^62.
struct RoundEvenLanes {
  ShiftRight shift_right;
  UnsignedLanes odd;

  explicit RoundEvenLanes(const RoundEven64& round)
      : shift_right(round.below_half, round.shift), odd(wrapping(all(round.odd))) {}
  Lanes operator()(Lanes lanes) const {
    const UnsignedLanes n = wrapping(lanes);
    return shift_right(n + ((n >> shift_right.shift) & odd));
  }
};
