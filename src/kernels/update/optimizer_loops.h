// The loops of Nesterov, Adam's sums and the gradient's norm, written once and compiled per
// instruction set.
//
// Include inside an anonymous namespace of mantissa::kernels, after update_loops.h.

inline int64_t look_ahead(const Update& args, int64_t begin, int64_t end) noexcept {
  alignas(64) int64_t values[kBlock], directions[kBlock];
  int64_t saturated = 0;
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = std::min(kBlock, end - first);
    load_block(args, first, count, values);
    saturated += direction_block(args, first, count, values, directions);
    with_velocity(args, [&](auto* velocity) { store_block(directions, count, velocity + first); });
  }
  return saturated;
}

template <typename Sum>
inline SquareSum squares_of(const Sum* __restrict sums, int shift, int64_t count) noexcept {
  const RoundEven64 round(shift);
  const int64_t scale = int64_t{1} << std::max(-shift, 0);
  SquareSum total;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t g = round(sums[i]) * scale;
    const auto square = static_cast<uint64_t>(g * g);
    total.low += square & UINT32_MAX;
    total.high += square >> 32;
  }
  return total;
}

inline SquareSum sum_of_squares(const GradientSums& sums, int shift, int64_t begin,
                                int64_t end) noexcept {
  return with_sum_type(sums.bits, [&](auto type) {
    return squares_of(sums.as<decltype(type)>() + begin, shift, end - begin);
  });
}

// M and S of elements whose g is given.
struct AdamSums {
  int64_t gradient_multiplier, first_multiplier, new_weight, old_weight;
  RoundEven64 magnitude, root;
  int root_left;

  explicit AdamSums(const Adam& args)
      : gradient_multiplier(args.gradient_multiplier),
        first_multiplier(args.first_multiplier),
        new_weight(args.square_multiplier),
        old_weight((int64_t{1} << kAdamWeightBits) - args.square_multiplier),
        magnitude(args.magnitude_shift),
        root(-args.root_align),
        root_left(std::max(args.root_align, 0)) {}
  int64_t first(int64_t g, int64_t m) const {
    return g * gradient_multiplier + m * first_multiplier;
  }
  int64_t square(int64_t g, int64_t s) const {
    const int64_t h = magnitude(g < 0 ? -g : g), r = root(s << root_left);
    return (r * r * old_weight + h * h * new_weight) >> kAdamCutBits;
  }
};

// g of `count` elements from `first` on.
inline void adam_gradients(const Update& args, int64_t first, int64_t count,
                           int64_t* __restrict gradients) noexcept {
  alignas(64) int64_t values[kBlock];
  const RoundEven64 round(args.direction_shift);
  const int64_t limit = mantissa_limit(32);
  load_block(args, first, count, values);
  wide_block(args, first, count, values, gradients);
  for (int64_t i = 0; i < count; ++i) gradients[i] = saturate(round(gradients[i]), limit);
}

// M and S of a block.
inline AdamExtremes adam_block(const AdamSums& sums, int64_t count,
                               const int64_t* __restrict gradients, const int16_t* __restrict first,
                               const int16_t* __restrict root) noexcept {
  int64_t low = INT64_MAX, high = INT64_MIN, largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t g = gradients[i];
    const int64_t sum = sums.first(g, first[i]), square = sums.square(g, root[i]);
    low = sum < low ? sum : low;
    high = sum > high ? sum : high;
    largest = square > largest ? square : largest;
  }
  return {{low, high, 0}, largest};
}

inline AdamExtremes adam_extremes(const Update& update, const Adam& args, int64_t begin,
                                  int64_t end) noexcept {
  alignas(64) int64_t gradients[kBlock];
  const AdamSums sums(args);
  AdamExtremes total;
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t count = std::min(kBlock, end - at);
    adam_gradients(update, at, count, gradients);
    with_sum_type(update.gradient.bits, [&](auto type) {
      store_block(gradients, count, update.gradient.as<decltype(type)>() + at);
    });
    const AdamExtremes block = adam_block(sums, count, gradients, args.first + at, args.root + at);
    total = {combined(total.first, block.first),
             std::max(total.largest_square, block.largest_square)};
  }
  return total;
}
