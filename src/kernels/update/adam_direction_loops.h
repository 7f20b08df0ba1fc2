// Adam's directions with roots and quotients of doubles, which give the exact integers (update.h
// says why), written once and compiled per instruction set.
//
// Include inside an anonymous namespace of mantissa::kernels, after optimizer_loops.h, where
// square_roots(double* values, int64_t count), in place, is defined.

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

// Roots of S of a block.
inline void adam_roots(const AdamSums& sums, int64_t count, const int64_t* __restrict gradients,
                       const int16_t* __restrict root, double* __restrict roots) noexcept {
  for (int64_t i = 0; i < count; ++i) {
    // At most 2^52, where the constant of exact_double is not enough.
    const int64_t square = sums.square(gradients[i], root[i]);
    roots[i] = exact_double(square >> 2) * 4 + exact_double(square & 3);
  }
  square_roots(roots, count);
}

template <typename Sum>
inline int64_t adam_directions(const GradientSums& gradient, const Adam& args, int64_t begin,
                               int64_t end) noexcept {
  alignas(64) int64_t gradients[kBlock];  // then the directions
  alignas(64) double roots[kBlock] = {};
  const AdamSums sums(args);
  int64_t saturated = 0;
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t count = std::min(kBlock, end - at);
    int16_t* const first = args.first + at;
    int16_t* const root = args.root + at;
    std::copy_n(gradient.as<Sum>() + at, count, gradients);
    adam_roots(sums, count, gradients, root, roots);
    saturated += adam_moments(args, gradients, roots, count, first, root);
    saturated += adam_quotients(args, first, root, count, gradients);
    store_block(gradients, count, gradient.as<Sum>() + at);
  }
  return saturated;
}

inline int64_t adam_direction(const GradientSums& gradient, const Adam& args, int64_t begin,
                              int64_t end) noexcept {
  return with_sum_type(gradient.bits, [&](auto type) {
    return adam_directions<decltype(type)>(gradient, args, begin, end);
  });
}
