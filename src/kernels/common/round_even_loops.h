// Rounding to nearest even for vectorised loops: shift_right_rne with the cases of `shift` decided
// outside the loop.
//
// Include inside an anonymous namespace of mantissa::kernels, so that each instruction set has its
// own.

// |n| <= 2^30, shift in [0, 30].
struct RoundEven32 {
  int shift;
  int32_t below_half, odd;

  explicit RoundEven32(int shift_)
      : shift(shift_),
        below_half(shift == 0 ? 0 : (int32_t{1} << (shift - 1)) - 1),
        odd(shift == 0 ? 0 : 1) {}
  int32_t operator()(int32_t n) const { return (n + below_half + ((n >> shift) & odd)) >> shift; }
};

// |n| < 2^62; from a shift of 62 on all is rounded away.
struct RoundEven64 {
  int shift;
  int64_t below_half, odd;

  explicit RoundEven64(int shift_)
      : shift(std::clamp(shift_, 0, 62)),
        below_half(shift == 0 ? 0 : (int64_t{1} << (shift - 1)) - 1),
        odd(shift == 0 ? 0 : 1) {}
  int64_t operator()(int64_t n) const { return (n + below_half + ((n >> shift) & odd)) >> shift; }
};
