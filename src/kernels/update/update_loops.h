// The update loops, written once and compiled per instruction set (see elementwise_loops.h).
//
// Everything is int64 without branches on data, in blocks whose values are widened to a small array
// first: one loop then serves every width of W, and compilers vectorise it.
//
// Include inside an anonymous namespace of mantissa::kernels, after update.h and lazy_update.h.

#include "kernels/round_even_loops.h"

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

inline void load_block(const Update& args, int64_t first, int64_t count,
                       int64_t* __restrict values) noexcept {
  if (args.weight_bits <= 8) {
    load_values<int8_t>(args, first, count, values);
  } else {
    load_values<int16_t>(args, first, count, values);
  }
}

// G to `wide` for `count` elements from `first` on.
inline void direction_block(const Update& args, int64_t first, int64_t count) noexcept {
  alignas(64) int64_t values[kBlock];
  load_block(args, first, count, values);
  const RoundEven64 round(args.gradient_shift);
  int64_t* __restrict wide = args.gradient + first;
  const int64_t gradient_multiplier = args.gradient_multiplier;
  const int64_t decay_multiplier = args.decay_multiplier;
  for (int64_t i = 0; i < count; ++i) {
    wide[i] = round(wide[i]) * gradient_multiplier + values[i] * decay_multiplier;
  }
  if (args.velocity == nullptr) return;
  const int16_t* __restrict velocity = args.velocity + first;
  const int64_t velocity_multiplier = args.velocity_multiplier;
  for (int64_t i = 0; i < count; ++i) wide[i] += velocity[i] * velocity_multiplier;
}

inline Extremes direction_extremes(const Update& args, int64_t begin, int64_t end) noexcept {
  Extremes total;
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = std::min(kBlock, end - first);
    direction_block(args, first, count);
    total = combined(total, gradient_extremes(args.gradient, first, first + count));
  }
  return total;
}

// d to u for `count` elements from `first` on.
inline void stochastic_updates(const Update& args, int64_t first, int64_t count,
                               int64_t* directions) noexcept {
  const int shift = args.update_shift;
  std::array<uint32_t, 4> words = {};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t element = first + i;
    if (i == 0 || element % 4 == 0) words = args.key.block(static_cast<uint32_t>(element / 4));
    const int64_t random = int64_t{words[element % 4]};
    const int64_t below = shift <= 32 ? random >> (32 - shift) : random << (shift - 32);
    directions[i] = (directions[i] * args.rate_multiplier + below) >> shift;
  }
}

// d to u for `count` elements from `first` on, whose directions these are.
inline void update_block(const Update& args, int64_t first, int64_t count,
                         int64_t* __restrict directions) noexcept {
  // Where nothing is cut off, or all of it, nothing is random.
  if (args.stochastic && args.update_shift > 0 && args.update_shift <= 62) {
    return stochastic_updates(args, first, count, directions);
  }
  const RescaleHalfUp rescale(args.update_shift);
  const int64_t rate = args.rate_multiplier;
  for (int64_t i = 0; i < count; ++i) directions[i] = rescale(directions[i] * rate);
}

inline Extremes step(const Update& args, int64_t begin, int64_t end) noexcept {
  alignas(64) int64_t values[kBlock];
  const int64_t limit = mantissa_limit(args.direction_bits);
  const RoundEven64 round(args.direction_shift);
  int64_t low = INT64_MAX, high = INT64_MIN, saturated = 0;
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = std::min(kBlock, end - first);
    load_block(args, first, count, values);
    int64_t* __restrict wide = args.gradient + first;
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
    update_block(args, first, count, wide);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t updated = values[i] - wide[i];
      wide[i] = updated;
      low = updated < low ? updated : low;
      high = updated > high ? updated : high;
    }
  }
  return {low, high, saturated};
}

// V' after `growth` doublings of the unit: lazy_rescale_and_split's first half.
inline void rescale_block(int growth, int64_t count, int64_t* __restrict values) noexcept {
  for (int doubling = 0; doubling < growth; ++doubling) {
    for (int64_t i = 0; i < count; ++i) values[i] = (values[i] + 1) >> 1;
  }
}

// The second half, after `left` halvings of the unit. Modulo 2^32, which is all that 16 bits of W
// and A depend on: shift + 16 <= 32.
template <typename Weight>
inline void split_block(const int64_t* __restrict values, int left, uint32_t below, int shift,
                        int64_t count, Weight* __restrict weights,
                        int16_t* __restrict accumulator) noexcept {
  for (int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<uint32_t>(values[i]) << left;
    const int32_t split = static_cast<int32_t>(value + below) >> shift;
    weights[i] = static_cast<Weight>(split);
    accumulator[i] = static_cast<int16_t>((static_cast<uint32_t>(split) << shift) - value);
  }
}

template <typename Weight>
inline void commit_of(const Update& args, int growth, int64_t begin, int64_t end) noexcept {
  int16_t unused[kBlock];
  // Ties: lazy_split_step rounds them down, lazy_split_rescaled up.
  const uint32_t half = (uint32_t{1} << args.shift) >> 1;
  const uint32_t below = growth == 0 && args.shift > 0 ? half - 1 : half;
  const int left = growth < 0 ? -growth : 0;
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = std::min(kBlock, end - first);
    rescale_block(growth, count, args.gradient + first);
    split_block(args.gradient + first, left, below, args.shift, count,
                static_cast<Weight*>(args.weights) + first,
                args.accumulator == nullptr ? unused : args.accumulator + first);
  }
}

inline void commit(const Update& args, int growth, int64_t begin, int64_t end) noexcept {
  if (args.weight_bits <= 8) {
    commit_of<int8_t>(args, growth, begin, end);
  } else {
    commit_of<int16_t>(args, growth, begin, end);
  }
}
