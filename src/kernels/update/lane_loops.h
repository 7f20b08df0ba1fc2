// The passes over `wide` and V' with vectors of int64. Where the instruction set has no product of
// 64-bit lanes, as AVX2, products are put together from factors of 32 bits, and arithmetic shifts
// are logical ones of n + 2^63.
//
// Include inside an anonymous namespace of mantissa::kernels, after update_loops.h, where these are
// defined: Lanes, UnsignedLanes, kLanes; load(pointer), sign extended; store(to, lanes), the low
// bits; product(a, b) and unsigned_product(a, b) of the lanes' low 32 bits; kHas64BitLanes, whether
// there are a product and an arithmetic shift of them.

// Sums and left shifts that may wrap are unsigned.
inline UnsignedLanes wrapping(Lanes lanes) noexcept {
  return reinterpret_cast<UnsignedLanes>(lanes);
}
inline Lanes as_signed(UnsignedLanes lanes) noexcept { return reinterpret_cast<Lanes>(lanes); }

inline Lanes all(int64_t value) noexcept { return value - Lanes{}; }

// A factor m and its halves; the products are exact modulo 2^64.
struct Factor {
  Lanes m, low, high;

  explicit Factor(int64_t m_)
      : m(all(m_)),
        low(all(static_cast<int32_t>(m_))),
        high(all((m_ - static_cast<int32_t>(m_)) >> 32)) {}
  // n * m; n fits int32.
  UnsignedLanes operator()(Lanes n) const {
    if constexpr (kHas64BitLanes) return wrapping(n) * wrapping(m);
    return wrapping(product(n, low)) + (wrapping(product(n, high)) << 32);
  }
};

// n * m for |n| < 2^32 and 0 <= m < 2^32: for n < 0 the low half is n + 2^32, and n's high half,
// all ones, keeps m of m << 32.
struct UnsignedFactor {
  Lanes m;
  UnsignedLanes shifted;

  explicit UnsignedFactor(int64_t m_) : m(all(m_)), shifted(wrapping(m) << 32) {}
  static bool fits(int64_t m) { return m >= 0 && m <= int64_t{UINT32_MAX}; }
  UnsignedLanes operator()(Lanes n) const {
    if constexpr (kHas64BitLanes) return wrapping(n) * wrapping(m);
    return wrapping(unsigned_product(n, m)) - (wrapping(n) & shifted);
  }
};

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

struct ExtremeLanes {
  Lanes low, high;

  ExtremeLanes() : low(all(INT64_MAX)), high(all(INT64_MIN)) {}
  void add(Lanes n) {
    low = n < low ? n : low;
    high = n > high ? n : high;
  }
  Extremes total() const {
    Extremes result;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      result.low = std::min<int64_t>(result.low, low[lane]);
      result.high = std::max<int64_t>(result.high, high[lane]);
    }
    return result;
  }
};

// V of kLanes elements from `i` on.
template <typename Weight>
inline Lanes load_value(const Update& args, int64_t i) noexcept {
  const Lanes weights = load(static_cast<const Weight*>(args.weights) + i) << args.shift;
  return args.accumulator == nullptr ? weights : weights - load(args.accumulator + i);
}

// `args` is a copy, which no store can change.
template <typename Weight>
inline Extremes directions(const Update args, int64_t begin, int64_t end) noexcept {
  const RoundEvenLanes round{RoundEven64(args.gradient_shift)};
  const UnsignedFactor gradient_factor(args.gradient_multiplier);
  const Factor velocity_factor(args.velocity_multiplier), decay_factor(args.decay_multiplier);
  ExtremeLanes extremes;
  for (int64_t i = begin; i < end; i += kLanes) {
    UnsignedLanes sum =
        gradient_factor(round(load(args.gradient + i))) + decay_factor(load_value<Weight>(args, i));
    if (args.velocity != nullptr) sum += velocity_factor(load(args.velocity + i));
    const Lanes wide = as_signed(sum);
    store(args.gradient + i, wide);
    extremes.add(wide);
  }
  return extremes.total();
}

// As directions(), for step().
template <typename Weight>
inline Extremes steps(const Update args, int64_t begin, int64_t end) noexcept {
  const RoundEvenLanes round{RoundEven64(args.direction_shift)};
  const Lanes limit = all(mantissa_limit(args.direction_bits));
  // From a shift of 63 on all is rounded away.
  const Lanes rate = all(args.update_shift > 62 ? 0 : args.rate_multiplier);
  const int shift = std::min(args.update_shift, 62);
  const ShiftRight rescale(shift == 0 ? 0 : int64_t{1} << (shift - 1), shift);
  ExtremeLanes extremes;
  Lanes exact = {};
  for (int64_t i = begin; i < end; i += kLanes) {
    const Lanes rounded = round(load(args.gradient + i));
    const Lanes low = rounded > limit ? limit : rounded;
    const Lanes direction = low < -limit ? -limit : low;
    exact -= direction == rounded;
    if (args.velocity != nullptr) store(args.velocity + i, direction);
    const Lanes update = rescale(wrapping(product(direction, rate)));
    const Lanes updated = load_value<Weight>(args, i) - update;
    store(args.gradient + i, updated);
    extremes.add(updated);
  }
  Extremes total = extremes.total();
  total.saturated = end - begin;
  for (int64_t lane = 0; lane < kLanes; ++lane) total.saturated -= exact[lane];
  return total;
}

inline Extremes direction_extremes_lanes(const Update& args, int64_t begin, int64_t end) noexcept {
  if (!UnsignedFactor::fits(args.gradient_multiplier)) return direction_extremes(args, begin, end);
  const int64_t middle = end - (end - begin) % kLanes;
  return combined(args.weight_bits <= 8 ? directions<int8_t>(args, begin, middle)
                                        : directions<int16_t>(args, begin, middle),
                  direction_extremes(args, middle, end));
}

inline Extremes step_lanes(const Update& args, int64_t begin, int64_t end) noexcept {
  if (args.update_shift < 0 || args.stochastic) return step(args, begin, end);
  const int64_t middle = end - (end - begin) % kLanes;
  return combined(args.weight_bits <= 8 ? steps<int8_t>(args, begin, middle)
                                        : steps<int16_t>(args, begin, middle),
                  step(args, middle, end));
}
