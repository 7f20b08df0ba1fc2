// SiLU and its gradient on lanes.
//
// Include inside an anonymous namespace of mantissa::kernels, after wide.h and lanes/exp2.h.

// 2^61 / n, at most 3 below it, for n from 2^30 to 2^31: a line that is off by 1/17, and three
// steps of Newton's, which square the error. All roundings are downwards.
inline Lanes reciprocal_lanes(Lanes n) noexcept {
  constexpr int64_t kStart = 3031741620, kSlope = 4042322161;  // 48/17 2^30, 16/17 2^32
  Lanes r = kStart - as_signed(wrapping(unsigned_product(n, all(kSlope))) >> 32);
  for (int i = 0; i < 3; ++i) {
    const Lanes one = as_signed(wrapping(unsigned_product(n, r)) >> 31) + 1;
    r = as_signed(wrapping(unsigned_product(r, (int64_t{1} << 31) - one)) >> 30);
  }
  return r;
}

// 1 / (1 + e^|x|) in Q30, of e^-|x| in Q30: the quotient by the reciprocal is at most 2 too small.
inline Lanes sigmoid_below_lanes(Lanes power) noexcept {
  const Lanes sum = power + (int64_t{1} << 30);
  Lanes quotient =
      as_signed(wrapping(unsigned_product(power, reciprocal_lanes(sum))) >> 31);
  Lanes rest = as_signed((wrapping(power) << 30) + (wrapping(sum) >> 1)) -
               unsigned_product(quotient, sum);
  for (int i = 0; i < 2; ++i) {
    const Lanes is_more = rest >= sum;  // -1 or 0
    quotient -= is_more;
    rest -= sum & is_more;
  }
  return quotient;
}

// The sigmoid of q * 2^-right, and what it is of -|q|.
struct SigmoidLanes {
  Lanes value, below;
  SigmoidLanes(Lanes q, const RoundEvenLanes& round) noexcept {
    constexpr int64_t kLog2EQ30 = 1549082005;
    const Lanes size = q < 0 ? -q : q;
    const Lanes logarithm = round(product(size, all(kLog2EQ30)));
    below = sigmoid_below_lanes(exp2_q30_lanes<30>(wrapping(logarithm)));
    value = q > 0 ? (int64_t{1} << 30) - below : below;
  }
};

inline void silu(const Silu& args, int64_t begin, int64_t end) noexcept {
  // Shifts to the left saturate, and are rare.
  if (args.exponent > 0) return kWideReference.silu(args, begin, end);
  const RoundEvenLanes round{RoundEven64(-args.exponent)};
  int64_t i = begin;
  with_value_type(args.in.bits, [&](auto type) {
    const auto* const in = args.in.as<decltype(type)>();
    for (; i + kLanes <= end; i += kLanes) {
      const Lanes q = load(in + i), wide = product(q, SigmoidLanes(q, round).value);
      std::memcpy(args.wide + i, &wide, sizeof(wide));
    }
  });
  kWideReference.silu(args, i, end);
}

template <typename In, typename Grad>
inline int64_t silu_gradient_of(const SiluGradient& args, int64_t begin, int64_t end) noexcept {
  const RoundEvenLanes round{RoundEven64(-args.exponent)}, to_slope{RoundEven64(30)};
  const auto* const in = args.in.as<In>();
  const auto* const grads = args.grad_out.as<Grad>();
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    const Lanes q = load(in + i);
    const SigmoidLanes sigmoid(q, round);
    const Lanes slope = to_slope(product(sigmoid.below, (int64_t{1} << 30) - sigmoid.below));
    const Lanes derivative = sigmoid.value + round(product(q, slope));
    const Lanes wide = product(load(grads + i), derivative);
    std::memcpy(args.wide + i, &wide, sizeof(wide));
  }
  return i;
}

inline void silu_gradient(const SiluGradient& args, int64_t begin, int64_t end) noexcept {
  if (args.exponent > 0) return kWideReference.silu_gradient(args, begin, end);
  with_value_type(args.in.bits, [&](auto in) {
    with_gradient_type(args.grad_out.bits, [&](auto grad) {
      begin = silu_gradient_of<decltype(in), decltype(grad)>(args, begin, end);
    });
  });
  kWideReference.silu_gradient(args, begin, end);
}
