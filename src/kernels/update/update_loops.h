// The update loops, written once and compiled per instruction set (see elementwise_loops.h).
//
// Everything is int64 without branches on data, in blocks whose values are widened to a small array
// first: one loop then serves every width of W, and compilers vectorise it.
//
// Include inside an anonymous namespace of mantissa::kernels, after update.h and lazy_update.h.

#include "kernels/round_even_loops.h"

constexpr int64_t kBlock = 256;

// rescale_rhu with the cases of `shift` decided outside the loop: one of the shifts is 0, and saturating at 2^61 after a left shift is
// clipping at 2^61 >> left before it.
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

inline Extremes gradient_extremes(const int64_t* gradient, int64_t begin, int64_t end) noexcept {
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (int64_t i = begin; i < end; ++i) {
    low = gradient[i] < low ? gradient[i] : low;
    high = gradient[i] > high ? gradient[i] : high;
  }
  return {low, high, 0};
}

// V of `count` elements from `first` on.
template <typename Weight>
inline void load_values(const Update& args, int64_t first, int64_t count,
                        int64_t* __restrict values) noexcept {
  const Weight* __restrict weights = static_cast<const Weight*>(args.weights) + first;
  const int shift = args.shift;
  if (args.accumulator == nullptr) {
    for (int64_t i = 0; i < count; ++i) values[i] = lazy_value(weights[i], 0, shift);
    return;
  }
  const int16_t* __restrict accumulator = args.accumulator + first;
  for (int64_t i = 0; i < count; ++i) values[i] = lazy_value(weights[i], accumulator[i], shift);
}

// V and the `wide` direction of `count` elements from `first` on.
inline void load_block(const Update& args, int64_t first, int64_t count, int64_t* __restrict values,
                       int64_t* __restrict wide) noexcept {
  if (args.weight_bits == 8) {
    load_values<int8_t>(args, first, count, values);
  } else {
    load_values<int16_t>(args, first, count, values);
  }
  const RoundEven64 round(args.gradient_shift);
  const int64_t* __restrict gradient = args.gradient + first;
  const int64_t gradient_multiplier = args.gradient_multiplier;
  const int64_t decay_multiplier = args.decay_multiplier;
  for (int64_t i = 0; i < count; ++i) {
    wide[i] = round(gradient[i]) * gradient_multiplier + values[i] * decay_multiplier;
  }
  if (args.velocity == nullptr) return;
  const int16_t* __restrict velocity = args.velocity + first;
  const int64_t velocity_multiplier = args.velocity_multiplier;
  for (int64_t i = 0; i < count; ++i) wide[i] += velocity[i] * velocity_multiplier;
}

inline Extremes direction_extremes(const Update& args, int64_t begin, int64_t end) noexcept {
  alignas(64) int64_t values[kBlock], wide[kBlock];
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = std::min(kBlock, end - first);
    load_block(args, first, count, values, wide);
    for (int64_t i = 0; i < count; ++i) {
      low = wide[i] < low ? wide[i] : low;
      high = wide[i] > high ? wide[i] : high;
    }
  }
  return {low, high, 0};
}

inline Extremes step(const Update& args, int64_t begin, int64_t end) noexcept {
  alignas(64) int64_t values[kBlock], wide[kBlock];
  const int64_t limit = mantissa_limit(args.direction_bits);
  const int64_t rate = args.rate_multiplier;
  const RoundEven64 round(args.direction_shift);
  const RescaleHalfUp rescale(args.update_shift);
  int64_t low = INT64_MAX, high = INT64_MIN, saturated = 0;
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = std::min(kBlock, end - first);
    load_block(args, first, count, values, wide);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t rounded = round(wide[i]);
      const int64_t direction = saturate(rounded, limit);
      saturated += direction != rounded;
      wide[i] = direction;
    }
    if (args.velocity != nullptr) {
      int16_t* __restrict velocity = args.velocity + first;
      for (int64_t i = 0; i < count; ++i) velocity[i] = static_cast<int16_t>(wide[i]);
    }
    int64_t* __restrict gradient = args.gradient + first;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t updated = values[i] - rescale(wide[i] * rate);
      gradient[i] = updated;
      low = updated < low ? updated : low;
      high = updated > high ? updated : high;
    }
  }
  return {low, high, saturated};
}

// V' of `count` elements in the new unit: lazy_rescale_and_split's first half.
inline void rescale_block(const int64_t* __restrict from, int growth, int64_t count,
                          int64_t* __restrict values) noexcept {
  const int left = growth < 0 ? -growth : 0;
  for (int64_t i = 0; i < count; ++i) values[i] = from[i] * (int64_t{1} << left);
  for (int doubling = 0; doubling < growth; ++doubling) {
    for (int64_t i = 0; i < count; ++i) values[i] = (values[i] + 1) >> 1;
  }
}

template <typename Weight>
inline void commit_of(const Update& args, int growth, int64_t begin, int64_t end) noexcept {
  alignas(64) int64_t values[kBlock], split[kBlock];
  const int shift = args.shift;
  // lazy_split_step rounds -V up where lazy_split_rescaled rounds V up.
  const int64_t sign = growth == 0 ? -1 : 1;
  const int64_t half = shift == 0 ? 0 : int64_t{1} << (shift - 1);
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = std::min(kBlock, end - first);
    rescale_block(args.gradient + first, growth, count, values);
    Weight* __restrict weights = static_cast<Weight*>(args.weights) + first;
    for (int64_t i = 0; i < count; ++i) {
      split[i] = ((values[i] * sign + half) >> shift) * sign;
      weights[i] = static_cast<Weight>(split[i]);
    }
    if (args.accumulator == nullptr) continue;
    int16_t* __restrict accumulator = args.accumulator + first;
    for (int64_t i = 0; i < count; ++i) {
      accumulator[i] = static_cast<int16_t>(split[i] * (int64_t{1} << shift) - values[i]);
    }
  }
}

inline void commit(const Update& args, int growth, int64_t begin, int64_t end) noexcept {
  if (args.weight_bits == 8) {
    commit_of<int8_t>(args, growth, begin, end);
  } else {
    commit_of<int16_t>(args, growth, begin, end);
  }
}
