// Powers of two on lanes.
//
// Include inside an anonymous namespace of mantissa::kernels, after arithmetic.h.

// exp2_q30(-logarithm), of logarithms of positive sign in Q16.
inline Lanes exp2_q30_lanes(UnsignedLanes logarithm) noexcept {
  const Lanes fraction = as_signed((UnsignedLanes{} - logarithm) & 0xffff);
  const Lanes right = as_signed((logarithm + 0xffff) >> 16);
  Lanes power = all(kExp2Coefficients[5]);
  for (int i = 4; i >= 0; --i) {
    power = kExp2Coefficients[i] + as_signed(wrapping(unsigned_product(power, fraction)) >> 16);
  }
  return as_signed(wrapping(power) >> wrapping(right > 63 ? all(63) : right));
}
