// The loops of Nesterov, Adam and the gradient's norm, written once and compiled per instruction
// set.
//
// Include inside an anonymous namespace of mantissa::kernels, after update_loops.h, where
// square_roots(double* values, int64_t count), in place, is defined.

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

// Integers of magnitude below 2^51 and doubles, one the other's bits but for a constant: without
// conversion instructions, which AVX2 lacks for 64 bits.
constexpr double kIntegersFrom = 0x1.8p52;
inline double exact_double(int64_t n) noexcept {
  return std::bit_cast<double>(n + std::bit_cast<int64_t>(kIntegersFrom)) - kIntegersFrom;
}
// To nearest, ties to even.
inline int64_t rounded_integer(double real) noexcept {
  return std::bit_cast<int64_t>(real + kIntegersFrom) - std::bit_cast<int64_t>(kIntegersFrom);
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

// m' and s' of `count` elements; roots come as doubles.
inline int64_t adam_moments(const Adam& args, const int64_t* __restrict gradient,
                            const double* __restrict roots, int64_t count,
                            int16_t* __restrict first, int16_t* __restrict root) noexcept {
  const AdamSums sums(args);
  const int64_t limit = mantissa_limit(16), offset = args.root_offset, floor = args.root_floor;
  const int shift = args.root_shift;
  const int64_t first_offset = args.first_offset;
  const int first_shift = args.first_shift;
  int64_t saturated = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t sum = sums.first(gradient[i], first[i]);
    const int64_t sign = sum < 0 ? -1 : 0;
    const int64_t m = ((((sum ^ sign) - sign + first_offset) >> first_shift) ^ sign) - sign;
    const int64_t next = saturate(m, limit);
    // The root lies in [n, n + 1): n is the nearest integer, or one less.
    const int64_t nearest = rounded_integer(roots[i]);
    const int64_t below = nearest - (exact_double(nearest) > roots[i]);
    const int64_t s = (below + offset) >> shift;
    const int64_t at_most = s > limit ? limit : s;
    saturated += (next != m) + (at_most != s);
    first[i] = static_cast<int16_t>(next);
    root[i] = static_cast<int16_t>(at_most < floor ? floor : at_most);
  }
  return saturated;
}

// d of `count` elements. Clipping the numerator clips the quotient, and integers are compared
// without branches; clipped numerators are below 2^51.
inline int64_t adam_quotients(const Adam& args, const int16_t* __restrict first,
                              const int16_t* __restrict root, int64_t count,
                              int64_t* __restrict direction) noexcept {
  const int shift = std::max(args.numerator_shift, 0);
  const int64_t used = args.numerator_shift < 0 ? 0 : -1;
  int64_t saturated = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t sum = root[i] * args.root_multiplier + args.epsilon;
    const int64_t denominator = sum < 1 ? 1 : sum;
    const int64_t numerator = (int64_t{first[i]} << shift) & used;
    const int64_t clipped = saturate(numerator, denominator << kAdamLimitBits);
    saturated += clipped != numerator;
    direction[i] = rounded_integer(exact_double(clipped) / exact_double(denominator));
  }
  return saturated;
}

inline int64_t adam_direction(const Adam& args, int64_t begin, int64_t end) noexcept {
  alignas(64) double roots[kBlock] = {};
  const AdamSums sums(args);
  int64_t saturated = 0;
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t count = std::min(kBlock, end - at);
    int64_t* __restrict gradient = args.gradient + at;
    int16_t* const first = args.first + at;
    int16_t* const root = args.root + at;
    for (int64_t i = 0; i < count; ++i) {
      // At most 2^52, where the constant of exact_double is not enough.
      const int64_t square = sums.square(gradient[i], root[i]);
      roots[i] = exact_double(square >> 2) * 4 + exact_double(square & 3);
    }
    square_roots(roots, count);
    saturated += adam_moments(args, gradient, roots, count, first, root);
    saturated += adam_quotients(args, first, root, count, gradient);
  }
  return saturated;
}
