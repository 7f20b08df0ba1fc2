// Powers of two on lanes.
//
// Include inside an anonymous namespace of mantissa::kernels, after arithmetic.h.

// exp2_q30(-logarithm), of logarithms of positive sign in Q16; or, with kBits = 30, of the Q30 that
// exp_q30 has.
template <int kBits = 16>
inline Lanes exp2_q30_lanes(UnsignedLanes logarithm) noexcept {
  constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  const Lanes fraction = as_signed((UnsignedLanes{} - logarithm) & kMask);
  const Lanes right = as_signed((logarithm + kMask) >> kBits);
  Lanes power = all(kExp2Coefficients[5]);
  for (int i = 4; i >= 0; --i) {
    power = kExp2Coefficients[i] + as_signed(wrapping(unsigned_product(power, fraction)) >> kBits);
  }
  return as_signed(wrapping(power) >> wrapping(right > 63 ? all(63) : right));
}
