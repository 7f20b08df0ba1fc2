// Elementary functions on vectors of floats. Errors are at most 2 units in the last place, of the
// sigmoid 3.
//
// Include inside an anonymous namespace of mantissa::kernels, after vectors.h.

// The polynomial whose coefficients these are, the highest power first.
template <typename... Coefficients>
inline Floats polynomial(Floats x, float first, Coefficients... others) noexcept {
  Floats sum = all(first);
  ((sum = fused(sum, x, all(others))), ...);
  return sum;
}

// 2^n, n in [-126, 127].
inline Floats power_of_two(Ints n) noexcept { return floats_of((n + 127) << 23); }

// e^x = 2^n e^r with |r| <= ln(2) / 2. 0 and infinity beyond the range of floats, NaN of NaN.
// Coefficients: Cephes, expf.
inline Floats exponential(Floats x) noexcept {
  constexpr float kToInteger = 0x1.8p23F;  // added, it leaves the integer in the lowest bits
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  x = greatest(least(x, all(89)), all(-104));
  const Floats shifted = fused(x, all(1.44269504F), all(kToInteger));
  const Floats n = shifted - kToInteger;
  const Floats r = fused(n, all(-kLn2Low), fused(n, all(-kLn2High), x));
  const Floats tail = polynomial(r, 1.9875691500e-4F, 1.3981999507e-3F, 8.3334519073e-3F,
                                 4.1665795894e-2F, 1.6666665459e-1F, 5.0000001201e-1F);
  const Floats power = fused(tail, r * r, r) + 1;
  // In two parts, since 2^n may leave the range that power_of_two has.
  const Ints whole = bits_of(shifted) - bits_of(all(kToInteger)), half = whole >> 1;
  return power * power_of_two(half) * power_of_two(whole - half);
}

inline Floats absolute(Floats x) noexcept { return floats_of(bits_of(x) & 0x7fffffff); }
inline Floats with_sign_of(Floats x, Floats sign) noexcept {
  return floats_of(bits_of(x) | (bits_of(sign) & ~0x7fffffff));
}

inline Floats sigmoid(Floats x) noexcept { return 1 / (1 + exponential(-x)); }

// By a polynomial near zero, else from e^2|x|. Coefficients: Cephes, tanhf.
inline Floats tangent(Floats x) noexcept {
  const Floats size = absolute(x), square = x * x;
  const Floats tail = polynomial(square, -5.70498872745e-3F, 2.06390887954e-2F, -5.37397155531e-2F,
                                 1.33314422036e-1F, -3.33332819422e-1F);
  const Floats near = fused(tail * square, x, x);
  const Floats far = with_sign_of(1 - 2 / (exponential(2 * size) + 1), x);
  return size < 0.625F ? near : far;
}

// ln(1 + p) for p in [0, 1]: 2 artanh(s) of s = p / (2 + p) <= 1/3, by its power series.
inline Floats log_above_one(Floats p) noexcept {
  const Floats s = p / (2 + p);
  return 2 * s * polynomial(s * s, 1.0F / 15, 1.0F / 13, 1.0F / 11, 1.0F / 9, 1.0F / 7, 1.0F / 5,
                            1.0F / 3, 1.0F);
}

// The error function: x + x p(x^2) below 1, else 1 - e^q(|x|), which is 1 in float from 4 on.
// Coefficients: minimax fits to erf(x) / x - 1 and to ln(erfc(x)).
inline Floats error_function(Floats x) noexcept {
  const Floats square = x * x, size = least(absolute(x), all(4));
  const Floats tail = polynomial(square, 0x1.496a32p-14F, -0x1.a3f7p-11F, 0x1.5405b2p-8F,
                                 -0x1.b7f90ep-6F, 0x1.ce2cf8p-4F, -0x1.81273ep-2F, 0x1.06eba8p-3F);
  const Floats near = fused(tail, x, x);
  const Floats logarithm =
      polynomial(size, 0x1.86dd92p-13F, -0x1.825bp-9F, 0x1.65cb7ap-6F, -0x1.a65344p-4F,
                 -0x1.46baecp-1F, -0x1.2088eap0F, -0x1.661ce4p-12F);
  const Floats far = with_sign_of(1 - exponential(logarithm), x);
  return absolute(x) < 1 ? near : far;
}
