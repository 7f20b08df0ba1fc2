// The passes over `wide` and V' with vectors of int32, and of int64 for products.
//
// Include inside an anonymous namespace of mantissa::kernels, after update_loops.h and the vectors
// of one instruction set (lanes/).

#include "kernels/lanes/arithmetic.h"

// A factor m of 32-bit numbers, as m = high * 2^32 + low; products are exact modulo 2^64.
struct Factor {
  Lanes low, high;

  explicit Factor(int64_t m)
      : low(all(static_cast<int32_t>(m))), high(all((m - static_cast<int32_t>(m)) >> 32)) {}
};

// n * m for |n| < 2^32 and 0 <= m < 2^32: for n < 0 the low half is n + 2^32, and n's high half,
// all ones, keeps m of m << 32.
struct UnsignedFactor {
  Lanes m;
  UnsignedLanes shifted;

  explicit UnsignedFactor(int64_t m_) : m(all(m_)), shifted(wrapping(m) << 32) {}
  UnsignedLanes operator()(Lanes n) const {
    if constexpr (kHas64BitLanes) return wrapping(n) * wrapping(m);
    return wrapping(unsigned_product(n, m)) - (wrapping(n) & shifted);
  }
};

template <typename Lane>
struct ExtremeLanes {
  Lane low, high;

  void add(Lane n) {
    low = n < low ? n : low;
    high = n > high ? n : high;
  }
  Extremes total() const {
    constexpr auto kCount = static_cast<int64_t>(sizeof(Lane) / sizeof(low[0]));
    Extremes result;
    for (int64_t lane = 0; lane < kCount; ++lane) {
      result.low = std::min<int64_t>(result.low, low[lane]);
      result.high = std::max<int64_t>(result.high, high[lane]);
    }
    return result;
  }
};

// Elements whose index is even, and those whose index is odd.
struct Pair {
  Lanes evens, odds;
};
constexpr int64_t kWords = 2 * kLanes;

// V of kWords elements from `i` on; |V| <= 2^30 + 2^15.
template <typename Weight>
inline Words load_value(const Update& args, int64_t i) noexcept {
  const Words weights = load_words(static_cast<const Weight*>(args.weights) + i)
                        << all_words(args.shift);
  return args.accumulator == nullptr ? weights : weights - load_words(args.accumulator + i);
}

// g * gradient_multiplier of kWords elements.
template <typename Sum>
struct GradientLanes;

// Sums of 32 bits that are shifted left if at all, after the product.
template <>
struct GradientLanes<int32_t> {
  Lanes multiplier;
  UnsignedLanes left;

  explicit GradientLanes(const Update& args)
      : multiplier(all(args.gradient_multiplier)), left(wrapping(all(-args.gradient_shift))) {}
  static bool can_do(const Update& args) {
    return args.gradient_shift <= 0 && std::in_range<int32_t>(args.gradient_multiplier);
  }
  Pair operator()(const int32_t* sums) const {
    const Words g = load_words(sums);
    return {shifted(evens_of(g)), shifted(odds_of(g))};
  }
  Lanes shifted(Lanes g) const { return as_signed(wrapping(product(g, multiplier)) << left); }
};

// Sums of 64 bits, whose rounded form may be 2^31.
template <>
struct GradientLanes<int64_t> {
  RoundEvenLanes round;
  UnsignedFactor factor;

  explicit GradientLanes(const Update& args)
      : round{RoundEven64(args.gradient_shift)}, factor(args.gradient_multiplier) {}
  static bool can_do(const Update& args) {
    return args.gradient_shift >= 0 && std::in_range<uint32_t>(args.gradient_multiplier);
  }
  Pair operator()(const int64_t* sums) const {
    return {as_signed(factor(round(load_evens(sums)))), as_signed(factor(round(load_odds(sums))))};
  }
};

// `wide` of kWords elements. `args` is a copy, which no store can change.
template <typename Weight, typename Sum, typename Velocity>
struct WideLanes {
  Update args;
  GradientLanes<Sum> gradient;
  Factor velocity_factor, decay_factor;

  explicit WideLanes(const Update& args_)
      : args(args_),
        gradient(args),
        velocity_factor(args.velocity_multiplier),
        decay_factor(args.decay_multiplier) {}
  static bool can_do(const Update& args) { return GradientLanes<Sum>::can_do(args); }
  // From element `i` on, whose V are given.
  Pair operator()(int64_t i, Words values) const {
    const Pair scaled = gradient(args.gradient.as<Sum>() + i);
    const bool moves = args.velocity.data != nullptr;
    const Words velocity = moves ? load_words(args.velocity.as<Velocity>() + i) : Words{};
    return {sum(scaled.evens, evens_of(values), evens_of(velocity), moves),
            sum(scaled.odds, odds_of(values), odds_of(velocity), moves)};
  }
  Lanes sum(Lanes scaled, Lanes values, Lanes velocity, bool moves) const {
    UnsignedLanes low = wrapping(scaled) + wrapping(product(values, decay_factor.low));
    UnsignedLanes high = wrapping(product(values, decay_factor.high));
    if (moves) {
      low += wrapping(product(velocity, velocity_factor.low));
      high += wrapping(product(velocity, velocity_factor.high));
    }
    return as_signed(low + (high << 32));
  }
};

// Right shifts by 32 and more whose results fit a word.
struct HighWords {
  Words shift;
  bool can_do;

  explicit HighWords(int shift_) : shift(all_words(shift_ - 32)), can_do(shift_ >= 32) {}
  Words operator()(UnsignedLanes evens, UnsignedLanes odds) const {
    return interleaved_highs(as_signed(evens), as_signed(odds)) >> shift;
  }
};

// u from d.
struct UpdateLanes {
  Lanes rate;
  ShiftRight rescale;
  HighWords high_words;

  // From a shift of 63 on all is rounded away.
  explicit UpdateLanes(const Update& args)
      : rate(all(args.update_shift > 62 ? 0 : args.rate_multiplier)),
        rescale(args.update_shift == 0 ? 0 : int64_t{1} << (std::min(args.update_shift, 62) - 1),
                std::min(args.update_shift, 62)),
        high_words(std::min(args.update_shift, 62)) {}
  // If |u| <= 2^29, so that V - u fits a word.
  static bool can_do(const Update& args) {
    if (args.update_shift < 0 || args.stochastic) return false;
    const int64_t most = mantissa_limit(args.direction_bits) * args.rate_multiplier;
    return (most >> std::min(args.update_shift, 62)) < int64_t{1} << 29;
  }
  Words operator()(Words directions) const {
    const UnsignedLanes evens = wrapping(product(evens_of(directions), rate));
    const UnsignedLanes odds = wrapping(product(odds_of(directions), rate));
    if (high_words.can_do) return high_words(evens + rescale.addend, odds + rescale.addend);
    return interleaved(rescale(evens), rescale(odds));
  }
};

// Clips, and counts per lane, negatively, the numbers that stay as they were.
template <typename Vector>
struct Clip {
  Vector limit, exact = {};

  Vector operator()(Vector n) {
    const Vector low = n > limit ? limit : n;
    const Vector clipped = low < -limit ? -limit : low;
    exact += clipped == n;
    return clipped;
  }
  int64_t count() const {
    int64_t total = 0;
    for (size_t lane = 0; lane < sizeof(exact) / sizeof(exact[0]); ++lane) total -= exact[lane];
    return total;
  }
};

// d of kWords elements. Shifts by 32 and more leave words, which are clipped as such.
template <typename Weight, typename Sum, typename Velocity>
struct DirectionLanes {
  WideLanes<Weight, Sum, Velocity> wide;
  RoundEven64 round;
  RoundEvenLanes round_lanes;
  HighWords high_words;
  Clip<Lanes> clip_lanes;
  Clip<Words> clip_words;

  explicit DirectionLanes(const Update& args)
      : wide(args),
        round(args.direction_shift),
        round_lanes(round),
        high_words(round.shift),
        clip_lanes{all(mantissa_limit(args.direction_bits))},
        clip_words{all_words(static_cast<int32_t>(mantissa_limit(args.direction_bits)))} {}
  Words operator()(int64_t i, Words values) {
    const Pair pair = wide(i, values);
    if (high_words.can_do) {
      return clip_words(high_words(round_lanes.biased(pair.evens), round_lanes.biased(pair.odds)));
    }
    return interleaved(clip_lanes(round_lanes(pair.evens)), clip_lanes(round_lanes(pair.odds)));
  }
  int64_t exact() const { return clip_lanes.count() + clip_words.count(); }
};

// Words with the low halves of `low`, and with the low halves of `high` as their high halves.
inline Words joined_halves(Words low, Words high) noexcept {
  constexpr int kHalfBits = 16, kLowHalf = (1 << kHalfBits) - 1;
  return (low & kLowHalf) | (high << kHalfBits);
}

// kWords sums: their extremes, and their low words after the shift.
template <typename Sum>
struct SketchedGradient;

template <>
struct SketchedGradient<int32_t> {
  Words shift;
  ExtremeLanes<Words> extremes = {all_words(INT32_MAX), all_words(INT32_MIN)};

  explicit SketchedGradient(int shift_) : shift(all_words(shift_)) {}
  Words operator()(const int32_t* sums) {
    const Words g = load_words(sums);
    extremes.add(g);
    return g >> shift;
  }
};

template <>
struct SketchedGradient<int64_t> {
  ShiftRight shift;
  ExtremeLanes<Lanes> extremes = {all(INT64_MAX), all(INT64_MIN)};

  explicit SketchedGradient(int shift_) : shift(0, shift_) {}
  Words operator()(const int64_t* sums) {
    const Lanes evens = load_evens(sums), odds = load_odds(sums);
    extremes.add(evens);
    extremes.add(odds);
    return interleaved(shift(wrapping(evens)), shift(wrapping(odds)));
  }
};

template <typename Sum>
inline SketchExtremes sketches(const Sum* sums, const DirectionSketch& sketch, int64_t begin,
                               int64_t end) noexcept {
  SketchedGradient<Sum> gradient(sketch.gradient_shift);
  const int16_t* const velocity = sketch.velocity;
  const Words factors =
      joined_halves(all_words(sketch.gradient_factor), all_words(sketch.velocity_factor));
  ExtremeLanes<Words> directions = {all_words(INT32_MAX), all_words(INT32_MIN)};
  for (int64_t i = begin; i < end; i += kWords) {
    const Words halves = joined_halves(gradient(sums + i), load_words(velocity + i));
    directions.add(sums_of_products(halves, factors));
  }
  if (begin == end) return {};
  return {gradient.extremes.total(), directions.total()};
}

inline SketchExtremes sketch_extremes_lanes(const GradientSums& sums, const DirectionSketch& sketch,
                                            int64_t begin, int64_t end) noexcept {
  const int64_t middle = end - (end - begin) % kWords;
  const SketchExtremes most = with_sum_type(sums.bits, [&](auto type) {
    return sketches(sums.as<decltype(type)>(), sketch, begin, middle);
  });
  return combined(most, sketch_extremes(sums, sketch, middle, end));
}

template <typename Weight, typename Sum, typename Velocity>
inline Extremes directions(const Update& args, int64_t begin, int64_t end) noexcept {
  const WideLanes<Weight, Sum, Velocity> wide(args);
  ExtremeLanes<Lanes> extremes = {all(INT64_MAX), all(INT64_MIN)};
  for (int64_t i = begin; i < end; i += kWords) {
    const Pair pair = wide(i, load_value<Weight>(wide.args, i));
    extremes.add(pair.evens);
    extremes.add(pair.odds);
  }
  return extremes.total();
}

// Whether kWords sums are zero. In a table most rows are: their tokens are in no example.
inline bool all_zero(const int32_t* sums) noexcept { return all_zero(load_words(sums)); }
inline bool all_zero(const int64_t* sums) noexcept {
  return all_zero(reinterpret_cast<Words>(load_evens(sums) | load_odds(sums)));
}

// With kSumsAlone nothing but sums moves weights: if these are zero V stays, and d is zero.
template <bool kSumsAlone, typename Weight, typename Sum, typename Velocity>
inline Extremes steps(const Update& args_, int64_t begin, int64_t end) noexcept {
  const Update args = args_;
  const Words shift = all_words(args.shift);
  const auto below = static_cast<int32_t>(Split(args.shift, 0).below);
  DirectionLanes<Weight, Sum, Velocity> direction(args);
  const UpdateLanes update(args);
  const bool replaces_velocity = args.replaces_velocity();
  Sum* const sums = args.gradient.as<Sum>();
  Weight* const weights = static_cast<Weight*>(args.weights);
  Velocity* const velocity = args.velocity.as<Velocity>();
  ExtremeLanes<Words> extremes = {all_words(INT32_MAX), all_words(INT32_MIN)};
  int64_t still = 0;
  for (int64_t i = begin; i < end; i += kWords) {
    const Words values = load_value<Weight>(args, i);
    Words left = values;
    if (kSumsAlone && all_zero(sums + i)) {
      still += kWords;
    } else {
      const Words d = direction(i, values);
      if (replaces_velocity) {
        store_words(velocity + i, d);
      } else {
        store_words(sums + i, d);
      }
      left -= update(d);
    }
    extremes.add(left);
    const Words updated = (left + below) >> shift;
    store_words(weights + i, updated);
    if (args.accumulator != nullptr) {
      store_words(args.accumulator + i, (updated << shift) - left);
    }
  }
  if (begin == end) return {};
  Extremes total = extremes.total();
  total.saturated = end - begin - still - direction.exact();
  return total;
}

// Calls function(Weight{}, Sum{}, Velocity{}).
template <typename Function>
inline decltype(auto) with_types(const Update& args, Function&& function) noexcept {
  const auto with_velocity = [&](auto weight, auto sum) {
    return args.velocity.bits <= 16 ? function(weight, sum, int16_t{})
                                    : function(weight, sum, int32_t{});
  };
  return with_sum_type(args.gradient.bits, [&](auto sum) {
    return args.weight_bits <= 8 ? with_velocity(int8_t{}, sum) : with_velocity(int16_t{}, sum);
  });
}

inline Extremes direction_extremes_lanes(const Update& args, int64_t begin, int64_t end) noexcept {
  return with_types(args,
                    [&]<typename Weight, typename Sum, typename Velocity>(Weight, Sum, Velocity) {
                      if (!WideLanes<Weight, Sum, Velocity>::can_do(args))
                        return direction_extremes(args, begin, end);
                      const int64_t middle = end - (end - begin) % kWords;
                      return combined(directions<Weight, Sum, Velocity>(args, begin, middle),
                                      direction_extremes(args, middle, end));
                    });
}

inline Extremes step_lanes(const Update& args, int64_t begin, int64_t end) noexcept {
  return with_types(
      args, [&]<typename Weight, typename Sum, typename Velocity>(Weight, Sum, Velocity) {
        if (!UpdateLanes::can_do(args) || !WideLanes<Weight, Sum, Velocity>::can_do(args)) {
          return step(args, begin, end);
        }
        const int64_t middle = end - (end - begin) % kWords;
        const bool sums_alone = args.velocity.data == nullptr && args.decay_multiplier == 0;
        const Extremes most = sums_alone ? steps<true, Weight, Sum, Velocity>(args, begin, middle)
                                         : steps<false, Weight, Sum, Velocity>(args, begin, middle);
        return combined(most, step(args, middle, end));
      });
}
