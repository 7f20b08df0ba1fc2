// The update loops, written once and compiled per instruction set (see elementwise_loops.h).
//
// Everything is int64 without branches on data, in blocks whose values are widened to a small array
// first: one loop then serves every width of W, and compilers vectorise it.
//
// Include inside an anonymous namespace of mantissa::kernels, after update.h and lazy_update.h.

#include "kernels/common/round_even_loops.h"

constexpr int64_t kBlock = 256;

// rescale_rhu with the cases of `shift` decided outside the loop: one of the shifts is 0, and
// saturating at 2^61 after a left shift is clipping at 2^61 >> left before it.
struct RescaleHalfUp {
  int left, right;
  int64_t bound, half;

  explicit RescaleHalfUp(int shift)
      : left(shift < 0 ? std::min(-shift, 61) : 0),
        right(shift > 0 ? std::min(shift, 62) : 0),
        bound(shift > 62  ? 0
              : shift < 0 ? kWideLimit >> left
                          : INT64_MAX),
        half(right == 0 ? 0 : int64_t{1} << (right - 1)) {}
  int64_t operator()(int64_t n) const {
    const int64_t low = n < -bound ? -bound : n;
    const int64_t clipped = low > bound ? bound : low;
    return (clipped * (int64_t{1} << left) + half) >> right;
  }
};

inline Extremes combined(const Extremes& a, const Extremes& b) noexcept {
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.saturated + b.saturated};
}

template <typename Sum>
inline Extremes extremes_of(const Sum* __restrict sums, int64_t begin, int64_t end) noexcept {
  Sum low = std::numeric_limits<Sum>::max(), high = std::numeric_limits<Sum>::min();
  for (int64_t i = begin; i < end; ++i) {
    low = sums[i] < low ? sums[i] : low;
    high = sums[i] > high ? sums[i] : high;
  }
  return begin < end ? Extremes{low, high, 0} : Extremes{};
}

inline Extremes gradient_extremes(const GradientSums& sums, int64_t begin, int64_t end) noexcept {
  return with_sum_type(
      sums.bits, [&](auto type) { return extremes_of(sums.as<decltype(type)>(), begin, end); });
}

inline SketchExtremes combined(const SketchExtremes& a, const SketchExtremes& b) noexcept {
  return {combined(a.gradient, b.gradient), combined(a.direction, b.direction)};
}

inline SketchExtremes sketch_extremes(const GradientSums& sums, const DirectionSketch& sketch,
                                      int64_t begin, int64_t end) noexcept {
  return with_sum_type(sums.bits, [&](auto type) {
    const auto* gradient = sums.as<decltype(type)>();
    SketchExtremes found;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t g = static_cast<int16_t>(gradient[i] >> sketch.gradient_shift);
      const int64_t d = g * sketch.gradient_factor + sketch.velocity[i] * sketch.velocity_factor;
      found.gradient.low = std::min<int64_t>(found.gradient.low, gradient[i]);
      found.gradient.high = std::max<int64_t>(found.gradient.high, gradient[i]);
      found.direction.low = std::min(found.direction.low, d);
      found.direction.high = std::max(found.direction.high, d);
    }
    return found;
  });
}

// Calls function(W).
template <typename Function>
inline decltype(auto) with_weights(const Update& args, Function&& function) noexcept {
  return args.weight_bits <= 8 ? function(static_cast<int8_t*>(args.weights))
                               : function(static_cast<int16_t*>(args.weights));
}

// Calls function(v).
template <typename Function>
inline void with_velocity(const Update& args, Function&& function) noexcept {
  args.velocity.bits <= 16 ? function(args.velocity.as<int16_t>())
                           : function(args.velocity.as<int32_t>());
}

// Calls function with the place of d.
template <typename Function>
inline void with_directions(const Update& args, Function&& function) noexcept {
  if (args.replaces_velocity()) return with_velocity(args, function);
  with_sum_type(args.gradient.bits,
                [&](auto type) { function(args.gradient.as<decltype(type)>()); });
}

template <typename To>
inline void store_block(const int64_t* __restrict values, int64_t count,
                        To* __restrict to) noexcept {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(values[i]);
}

// V of `count` elements from `first` on.
template <typename Weight>
inline void load_values(const Update& args, const Weight* __restrict weights, int64_t first,
                        int64_t count, int64_t* __restrict values) noexcept {
  const int shift = args.shift;
  if (args.accumulator == nullptr) {
    for (int64_t i = 0; i < count; ++i) values[i] = lazy_value(weights[i], 0, shift);
    return;
  }
  const int16_t* __restrict accumulator = args.accumulator + first;
  for (int64_t i = 0; i < count; ++i) values[i] = lazy_value(weights[i], accumulator[i], shift);
}

inline void load_block(const Update& args, int64_t first, int64_t count,
                       int64_t* __restrict values) noexcept {
  with_weights(
      args, [&](const auto* weights) { load_values(args, weights + first, first, count, values); });
}

// rescale_rne(G, gradient_shift) * gradient_multiplier, a left shift being part of the product.
struct ScaledGradient {
  RoundEven64 round;
  int64_t multiplier;

  explicit ScaledGradient(const Update& args)
      : round(args.gradient_shift),
        multiplier(args.gradient_multiplier * (int64_t{1} << std::max(-args.gradient_shift, 0))) {}
  int64_t operator()(int64_t sum) const { return round(sum) * multiplier; }
};

template <typename Sum>
inline void scale_sums(const Update& args, int64_t first, int64_t count,
                       int64_t* __restrict scaled) noexcept {
  const ScaledGradient scale(args);
  const Sum* __restrict sums = args.gradient.as<Sum>() + first;
  for (int64_t i = 0; i < count; ++i) scaled[i] = scale(sums[i]);
}

// Adds the velocity's part. Not inline, so that loops around it keep their registers.
[[gnu::noinline]] void add_velocity(const Update& args, int64_t first, int64_t count,
                                    int64_t* __restrict wide) noexcept {
  const int64_t multiplier = args.velocity_multiplier;
  with_velocity(args, [&](const auto* velocities) {
    const auto* __restrict velocity = velocities + first;
    for (int64_t i = 0; i < count; ++i) wide[i] += velocity[i] * multiplier;
  });
}

// `wide` of `count` elements from `first` on, whose V are given.
inline void wide_block(const Update& args, int64_t first, int64_t count,
                       const int64_t* __restrict values, int64_t* __restrict wide) noexcept {
  with_sum_type(args.gradient.bits,
                [&](auto type) { scale_sums<decltype(type)>(args, first, count, wide); });
  const int64_t decay_multiplier = args.decay_multiplier;
  for (int64_t i = 0; i < count; ++i) wide[i] += values[i] * decay_multiplier;
  if (args.velocity.data != nullptr) add_velocity(args, first, count, wide);
}

inline Extremes direction_extremes(const Update& args, int64_t begin, int64_t end) noexcept {
  alignas(64) int64_t values[kBlock], wide[kBlock];
  Extremes total;
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = std::min(kBlock, end - first);
    load_block(args, first, count, values);
    wide_block(args, first, count, values, wide);
    total = combined(total, extremes_of(wide, 0, count));
  }
  return total;
}

// d of `count` elements from `first` on, whose V are given; returns how many were clipped.
inline int64_t direction_block(const Update& args, int64_t first, int64_t count,
                               const int64_t* __restrict values,
                               int64_t* __restrict directions) noexcept {
  const int64_t limit = mantissa_limit(args.direction_bits);
  const RoundEven64 round(args.direction_shift);
  wide_block(args, first, count, values, directions);
  int64_t saturated = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t rounded = round(directions[i]);
    directions[i] = saturate(rounded, limit);
    saturated += directions[i] != rounded;
  }
  return saturated;
}

// Few blocks have values that count: kExtremes, the fastest of these functions, finds them.
template <auto kExtremes>
inline void count_directions(const Update& args, int64_t begin, int64_t end,
                             WideCounts* counts) noexcept {
  alignas(64) int64_t values[kBlock], wide[kBlock];
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = std::min(kBlock, end - first);
    const Extremes found = kExtremes(args, first, first + count);
    if (std::max(magnitude(found.low), magnitude(found.high)) < counts->least) continue;
    load_block(args, first, count, values);
    wide_block(args, first, count, values, wide);
    counts->add(wide, count);
  }
}

// d to u for `count` elements from `first` on.
inline void stochastic_updates(const Update& args, int64_t first, int64_t count,
                               int64_t* directions) noexcept {
  const int shift = args.update_shift;
  std::array<uint32_t, 4> words = {};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t element = first + i;
    if (i == 0 || element % 4 == 0) {
      words = random_block(args.key, static_cast<uint32_t>(element / 4));
    }
    const int64_t random = int64_t{words[element % 4]};
    const int64_t below = shift <= 32 ? random >> (32 - shift) : random << (shift - 32);
    directions[i] = (directions[i] * args.rate_multiplier + below) >> shift;
  }
}

// d to u for `count` elements from `first` on, whose directions these are.
inline void update_block(const Update& args, int64_t first, int64_t count,
                         int64_t* __restrict directions) noexcept {
  // If nothing is cut off, or everything, nothing is random.
  if (args.stochastic && args.update_shift > 0 && args.update_shift <= 62) {
    return stochastic_updates(args, first, count, directions);
  }
  const RescaleHalfUp rescale(args.update_shift);
  const int64_t rate = args.rate_multiplier;
  for (int64_t i = 0; i < count; ++i) directions[i] = rescale(directions[i] * rate);
}

// V' after `growth` doublings of the unit: lazy_rescale_and_split's first half.
inline void rescale_block(int growth, int64_t count, int64_t* __restrict values) noexcept {
  for (int doubling = 0; doubling < growth; ++doubling) {
    for (int64_t i = 0; i < count; ++i) values[i] = (values[i] + 1) >> 1;
  }
}

// The second half, with V' already rescaled if the unit grows. Modulo 2^32: the 16 bits of W and of
// A depend on no more, since shift + 16 <= 32.
struct Split {
  int shift, left;
  uint32_t below;

  // Ties: lazy_split_step rounds them down, lazy_split_rescaled up.
  Split(int shift_, int growth)
      : shift(shift_),
        left(growth < 0 ? -growth : 0),
        below(((uint32_t{1} << shift) >> 1) - (growth == 0 && shift > 0 ? 1 : 0)) {}
  // Returns W and sets A.
  int32_t operator()(uint32_t value, int16_t& accumulator) const {
    const uint32_t shifted = value << left;
    const int32_t weight = static_cast<int32_t>(shifted + below) >> shift;
    accumulator = static_cast<int16_t>((static_cast<uint32_t>(weight) << shift) - shifted);
    return weight;
  }
};

// The lowest 32 bits of V' are enough.
template <typename Value, typename Weight>
inline void split_block(const Update& args, int growth, int64_t first, int64_t count,
                        const Value* __restrict values, Weight* __restrict weights) noexcept {
  int16_t unused[kBlock];
  int16_t* __restrict accumulator = args.accumulator == nullptr ? unused : args.accumulator + first;
  const Split split(args.shift, growth);
  for (int64_t i = 0; i < count; ++i) {
    weights[i] = static_cast<Weight>(split(static_cast<uint32_t>(values[i]), accumulator[i]));
  }
}

inline void store_values(const Update& args, int growth, int64_t first, int64_t count,
                         const int64_t* values) noexcept {
  with_weights(args, [&](auto* weights) {
    split_block(args, growth, first, count, values, weights + first);
  });
}

inline Extremes step(const Update& args, int64_t begin, int64_t end) noexcept {
  alignas(64) int64_t values[kBlock], directions[kBlock];
  Extremes total;
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = std::min(kBlock, end - first);
    load_block(args, first, count, values);
    total.saturated += direction_block(args, first, count, values, directions);
    with_directions(args, [&](auto* to) { store_block(directions, count, to + first); });
    update_block(args, first, count, directions);
    for (int64_t i = 0; i < count; ++i) values[i] -= directions[i];
    store_values(args, 0, first, count, values);
    total = combined(total, extremes_of(values, 0, count));
  }
  return total;
}

// V' from its lowest bits and u; see update.h.
inline void recover_block(const Update& args, int64_t count, const int64_t* __restrict updates,
                          int64_t* __restrict values) noexcept {
  const int above = 64 - (args.weight_bits <= 8 ? 8 : 16) - args.shift;
  for (int64_t i = 0; i < count; ++i) {
    const auto before = static_cast<uint64_t>(values[i]) + static_cast<uint64_t>(updates[i]);
    values[i] = (static_cast<int64_t>(before << above) >> above) - updates[i];
  }
}

inline void change_unit(const Update& args, int growth, int64_t begin, int64_t end) noexcept {
  alignas(64) int64_t values[kBlock], directions[kBlock];
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = std::min(kBlock, end - first);
    load_block(args, first, count, values);
    with_directions(args, [&](auto* from) { std::copy_n(from + first, count, directions); });
    update_block(args, first, count, directions);
    recover_block(args, count, directions, values);
    rescale_block(growth, count, values);
    store_values(args, growth, first, count, values);
  }
}
