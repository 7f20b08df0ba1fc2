// The passes over `wide` and V' with vectors of int64.
//
// Include inside an anonymous namespace of mantissa::kernels, after update_loops.h and the vectors
// of one instruction set (lanes/).

#include "kernels/lanes/arithmetic.h"

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

// `wide` of kLanes elements. Sums of 32 bits have factors of any length, and those of 64 bits,
// whose rounded form may be 2^31, such as fit 32 bits. `args` is a copy, which no store can change.
template <typename Weight, typename Sum>
struct WideLanes {
  using GradientFactor = std::conditional_t<sizeof(Sum) == 4, Factor, UnsignedFactor>;

  Update args;
  RoundEvenLanes round;
  GradientFactor gradient_factor;
  Factor velocity_factor, decay_factor;

  explicit WideLanes(const Update& args_)
      : args(args_),
        round{RoundEven64(args.gradient_shift)},
        gradient_factor(ScaledGradient(args).multiplier),
        velocity_factor(args.velocity_multiplier),
        decay_factor(args.decay_multiplier) {}
  static bool can_do(const Update& args) {
    return sizeof(Sum) == 4 || UnsignedFactor::fits(args.gradient_multiplier);
  }
  // From element `i` on, whose V are given.
  Lanes operator()(int64_t i, Lanes values) const {
    Lanes g = load(args.gradient.as<Sum>() + i);
    if (args.gradient_shift > 0) g = round(g);
    UnsignedLanes sum = gradient_factor(g) + decay_factor(values);
    if (args.velocity != nullptr) sum += velocity_factor(load(args.velocity + i));
    return as_signed(sum);
  }
};

// u from d.
struct UpdateLanes {
  Lanes rate;
  ShiftRight rescale;

  // From a shift of 63 on all is rounded away.
  explicit UpdateLanes(const Update& args)
      : rate(all(args.update_shift > 62 ? 0 : args.rate_multiplier)),
        rescale(args.update_shift == 0 ? 0 : int64_t{1} << (std::min(args.update_shift, 62) - 1),
                std::min(args.update_shift, 62)) {}
  static bool can_do(const Update& args) { return args.update_shift >= 0 && !args.stochastic; }
  Lanes operator()(Lanes directions) const { return rescale(wrapping(product(directions, rate))); }
};

// d of kLanes elements, and how many were not clipped, negative, per lane.
template <typename Weight, typename Sum>
struct DirectionLanes {
  WideLanes<Weight, Sum> wide;
  RoundEvenLanes round;
  Lanes limit, exact = {};

  explicit DirectionLanes(const Update& args)
      : wide(args),
        round{RoundEven64(args.direction_shift)},
        limit(all(mantissa_limit(args.direction_bits))) {}
  Lanes operator()(int64_t i, Lanes values) {
    const Lanes rounded = round(wide(i, values));
    const Lanes low = rounded > limit ? limit : rounded;
    const Lanes direction = low < -limit ? -limit : low;
    exact += direction == rounded;
    return direction;
  }
};

template <typename Weight, typename Sum>
inline Extremes directions(const Update& args, int64_t begin, int64_t end) noexcept {
  const WideLanes<Weight, Sum> wide(args);
  ExtremeLanes extremes;
  for (int64_t i = begin; i < end; i += kLanes) {
    extremes.add(wide(i, load_value<Weight>(wide.args, i)));
  }
  return extremes.total();
}

template <typename Weight, typename Sum>
inline Extremes steps(const Update& args_, int64_t begin, int64_t end) noexcept {
  alignas(64) int32_t updated[kBlock];
  const Update args = args_;
  DirectionLanes<Weight, Sum> direction(args);
  const UpdateLanes update(args);
  const bool replaces_velocity = args.replaces_velocity();
  Sum* const sums = args.gradient.as<Sum>();
  Weight* const weights = static_cast<Weight*>(args.weights);
  ExtremeLanes extremes;
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t last = std::min(end, first + kBlock);
    for (int64_t i = first; i < last; i += kLanes) {
      const Lanes values = load_value<Weight>(args, i), d = direction(i, values);
      if (replaces_velocity) {
        store(args.velocity + i, d);
      } else {
        store(sums + i, d);
      }
      const Lanes left = values - update(d);
      extremes.add(left);
      store(updated + (i - first), left);
    }
    split_block(args, 0, first, last - first, updated, weights + first);
  }
  Extremes total = extremes.total();
  total.saturated = end - begin;
  for (int64_t lane = 0; lane < kLanes; ++lane) total.saturated += direction.exact[lane];
  return total;
}

// Calls function(Weight{}, Sum{}).
template <typename Function>
inline decltype(auto) with_types(const Update& args, Function&& function) noexcept {
  return with_sum_type(args.gradient.bits, [&](auto sum) {
    return args.weight_bits <= 8 ? function(int8_t{}, sum) : function(int16_t{}, sum);
  });
}

inline Extremes direction_extremes_lanes(const Update& args, int64_t begin, int64_t end) noexcept {
  return with_types(args, [&](auto weight, auto sum) {
    if (!WideLanes<decltype(weight), decltype(sum)>::can_do(args)) {
      return direction_extremes(args, begin, end);
    }
    const int64_t middle = end - (end - begin) % kLanes;
    return combined(directions<decltype(weight), decltype(sum)>(args, begin, middle),
                    direction_extremes(args, middle, end));
  });
}

inline Extremes step_lanes(const Update& args, int64_t begin, int64_t end) noexcept {
  return with_types(args, [&](auto weight, auto sum) {
    if (!UpdateLanes::can_do(args) || !WideLanes<decltype(weight), decltype(sum)>::can_do(args)) {
      return step(args, begin, end);
    }
    const int64_t middle = end - (end - begin) % kLanes;
    return combined(steps<decltype(weight), decltype(sum)>(args, begin, middle),
                    step(args, middle, end));
  });
}
