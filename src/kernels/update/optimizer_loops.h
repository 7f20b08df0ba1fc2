// The loops of Nesterov, Adam's sums and the gradient's norm, written once and compiled per
// instruction set.
//
// Include inside an anonymous namespace of mantissa::kernels, after update_loops.h.

inline Extremes look_ahead(const Update& args, int64_t begin, int64_t end) noexcept {
  const RoundEven64 round(args.direction_shift);
  int64_t* __restrict wide = args.gradient;
  int16_t* __restrict velocity = args.velocity;
  Extremes total;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t rounded = round(wide[i]);
    const int64_t next = saturate(rounded, mantissa_limit(16));
    total.saturated += next != rounded;
    const int64_t ahead =
        wide[i] - velocity[i] * args.velocity_multiplier + next * args.look_ahead_multiplier;
    velocity[i] = static_cast<int16_t>(next);
    wide[i] = ahead;
    total.low = ahead < total.low ? ahead : total.low;
    total.high = ahead > total.high ? ahead : total.high;
  }
  return total;
}

inline SquareSum sum_of_squares(const int64_t* __restrict gradient, int shift, int64_t begin,
                                int64_t end) noexcept {
  const RoundEven64 round(shift);
  SquareSum sum;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t g = round(gradient[i]);
    const auto square = static_cast<uint64_t>(g * g);
    sum.low += square & UINT32_MAX;
    sum.high += square >> 32;
  }
  return sum;
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

inline AdamExtremes adam_extremes(const Adam& args, int64_t begin, int64_t end) noexcept {
  const AdamSums sums(args);
  const RoundEven64 round(args.gradient_shift);
  const int64_t limit = mantissa_limit(32);
  int64_t* __restrict gradient = args.gradient;
  const int16_t* __restrict first = args.first;
  const int16_t* __restrict root = args.root;
  int64_t low = INT64_MAX, high = INT64_MIN, largest = 0;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t g = saturate(round(gradient[i]), limit);
    gradient[i] = g;
    const int64_t sum = sums.first(g, first[i]), square = sums.square(g, root[i]);
    low = sum < low ? sum : low;
    high = sum > high ? sum : high;
    largest = square > largest ? square : largest;
  }
  return {{low, high, 0}, largest};
}
