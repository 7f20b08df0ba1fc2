// The update loops, written once and compiled per instruction set (see elementwise_loops.h).
//
// Include inside an anonymous namespace of mantissa::kernels, after update.h and lazy_update.h.

inline Extremes gradient_extremes(const int64_t* gradient, int64_t begin, int64_t end) noexcept {
  Extremes extremes;
  for (int64_t i = begin; i < end; ++i) {
    extremes.low = gradient[i] < extremes.low ? gradient[i] : extremes.low;
    extremes.high = gradient[i] > extremes.high ? gradient[i] : extremes.high;
  }
  return extremes;
}

template <typename Weight>
inline int64_t value_at(const Update& args, int64_t i) noexcept {
  return lazy_value(static_cast<const Weight*>(args.weights)[i], args.accumulator[i], args.shift);
}

template <typename Weight, bool kVelocity>
inline int64_t wide_at(const Update& args, int64_t i, int64_t value) noexcept {
  int64_t wide = shift_right_rne(args.gradient[i], args.gradient_shift) * args.gradient_multiplier +
                 value * args.decay_multiplier;
  if constexpr (kVelocity) wide += args.velocity[i] * args.velocity_multiplier;
  return wide;
}

template <typename Weight, bool kVelocity>
inline Extremes direction_extremes_of(const Update& args, int64_t begin, int64_t end) noexcept {
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t wide = wide_at<Weight, kVelocity>(args, i, value_at<Weight>(args, i));
    low = wide < low ? wide : low;
    high = wide > high ? wide : high;
  }
  return {low, high, 0};
}

template <typename Weight, bool kVelocity>
inline Extremes step_of(const Update& args, int64_t begin, int64_t end) noexcept {
  const int64_t limit = mantissa_limit(args.direction_bits);
  int64_t low = INT64_MAX, high = INT64_MIN, saturated = 0;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t value = value_at<Weight>(args, i);
    const int64_t wide = wide_at<Weight, kVelocity>(args, i, value);
    const int64_t rounded = shift_right_rne(wide, args.direction_shift);
    const int64_t direction = saturate(rounded, limit);
    saturated += direction != rounded;
    if constexpr (kVelocity) args.velocity[i] = static_cast<int16_t>(direction);
    const int64_t updated =
        value - rescale_rhu(direction * args.rate_multiplier, args.update_shift);
    args.gradient[i] = updated;
    low = updated < low ? updated : low;
    high = updated > high ? updated : high;
  }
  return {low, high, saturated};
}

template <typename Weight>
inline void commit_of(const Update& args, int growth, int64_t begin, int64_t end) noexcept {
  auto* weights = static_cast<Weight*>(args.weights);
  for (int64_t i = begin; i < end; ++i) {
    const LazySplit split = lazy_rescale_and_split(args.gradient[i], growth, args.shift);
    weights[i] = static_cast<Weight>(split.weight);
    args.accumulator[i] = static_cast<int16_t>(split.accumulator);
  }
}

inline Extremes direction_extremes(const Update& args, int64_t begin, int64_t end) noexcept {
  if (args.weight_bits == 8) {
    return args.velocity != nullptr ? direction_extremes_of<int8_t, true>(args, begin, end)
                                    : direction_extremes_of<int8_t, false>(args, begin, end);
  }
  return args.velocity != nullptr ? direction_extremes_of<int16_t, true>(args, begin, end)
                                  : direction_extremes_of<int16_t, false>(args, begin, end);
}

inline Extremes step(const Update& args, int64_t begin, int64_t end) noexcept {
  if (args.weight_bits == 8) {
    return args.velocity != nullptr ? step_of<int8_t, true>(args, begin, end)
                                    : step_of<int8_t, false>(args, begin, end);
  }
  return args.velocity != nullptr ? step_of<int16_t, true>(args, begin, end)
                                  : step_of<int16_t, false>(args, begin, end);
}

inline void commit(const Update& args, int growth, int64_t begin, int64_t end) noexcept {
  if (args.weight_bits == 8) {
    commit_of<int8_t>(args, growth, begin, end);
  } else {
    commit_of<int16_t>(args, growth, begin, end);
  }
}
