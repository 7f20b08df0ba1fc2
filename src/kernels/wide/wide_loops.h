// The loops of wide numbers, written once and compiled per instruction set, each plain enough that
// compilers vectorise it.
//
// Include inside an anonymous namespace of mantissa::kernels, after wide.h and round_even_loops.h.

template <typename To>
inline WideStatistics narrow_range(const int64_t* __restrict wide, const RoundEven64& round,
                                   int64_t limit, int64_t count, To* __restrict out) noexcept {
  int64_t low = 0, high = 0, saturated = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t n = wide[i], rounded = round(n);
    const int64_t above = rounded < -limit ? -limit : rounded;
    const int64_t narrow = above > limit ? limit : above;
    low = n < low ? n : low;
    high = n > high ? n : high;
    saturated += narrow != rounded;
    out[i] = static_cast<To>(narrow);
  }
  return {static_cast<uint64_t>(std::max(high, -low)), saturated};
}

inline uint64_t maximum_of(const int64_t* wide, int64_t count) noexcept {
  int64_t low = 0, high = 0;
  for (int64_t i = 0; i < count; ++i) {
    low = wide[i] < low ? wide[i] : low;
    high = wide[i] > high ? wide[i] : high;
  }
  return static_cast<uint64_t>(std::max(high, -low));
}

inline WideStatistics narrow(const NarrowWide& args, int64_t begin, int64_t end) noexcept {
  const int64_t* const wide = args.wide + begin;
  const int64_t count = end - begin;
  if (args.out.data == nullptr) return {maximum_of(wide, count), 0};
  // Shifts to the left saturate, and those beyond 62 leave nothing: both are rare.
  if (args.shift < 0 || args.shift > 62) return kWideReference.narrow(args, begin, end);
  return with_wide_gradient_type(args.out.bits, [&](auto type) {
    return narrow_range(wide, RoundEven64(args.shift), mantissa_limit(args.out.bits), count,
                        args.out.as<decltype(type)>() + begin);
  });
}

template <typename Part>
inline void add_part(const Part* __restrict part, int shift, int64_t count,
                     int64_t* __restrict sums) noexcept {
  for (int64_t i = 0; i < count; ++i) {
    sums[i] += static_cast<int64_t>(static_cast<uint64_t>(int64_t{part[i]}) << shift);
  }
}

inline void add_shifted(const GradientSums& part, int shift, int64_t* sums, int64_t begin,
                        int64_t end) noexcept {
  with_sum_type(part.bits, [&](auto type) {
    add_part(part.as<decltype(type)>() + begin, shift, end - begin, sums + begin);
  });
}

// In 32 bits: x rounded to the plane's digit is x + half a digit for each plane below.
template <bool kLast>
inline void digits_of(const int16_t* __restrict in, int plane, int64_t count,
                      int8_t* __restrict out) noexcept {
  constexpr int32_t kHalf = 1 << (kValueDigitBits - 1);
  const int shift = plane * kValueDigitBits;
  int32_t halves = 0;
  for (int below = 0; below < plane; ++below) halves += kHalf << (below * kValueDigitBits);
  for (int64_t i = 0; i < count; ++i) {
    const int32_t rest = (in[i] + halves) >> shift;
    out[i] = static_cast<int8_t>(kLast ? rest : ((rest + kHalf) & (2 * kHalf - 1)) - kHalf);
  }
}

inline void digits(const Digits& args, int64_t begin, int64_t end) noexcept {
  const auto of = args.last ? digits_of<true> : digits_of<false>;
  of(args.in + begin, args.plane, end - begin, args.out + begin);
}
