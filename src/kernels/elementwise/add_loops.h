// The loops of add and add_wide: part of elementwise_loops.h, which includes this file.

// rescale_rne in int32 for 8-bit values: left shifts up to kAlignBits8, right shifts up to 30.
template <bool kRight>
inline int32_t align8(int32_t value, int left, const RoundEven32& right) {
  const int32_t up = value * (int32_t{1} << left);
  return kRight ? right(up) : up;
}

template <bool kRight>
inline WideStatistics add_aligned(const Add& args, int64_t begin, int64_t end) noexcept {
  const int8_t* __restrict a = args.a;
  const int8_t* __restrict b = args.b;
  int8_t* __restrict out = args.out;
  const int left_a = args.shift_a < 0 ? -args.shift_a : 0;
  const int left_b = args.shift_b < 0 ? -args.shift_b : 0;
  const RoundEven32 right_a(std::clamp(args.shift_a, 0, 30));
  const RoundEven32 right_b(std::clamp(args.shift_b, 0, 30));
  const int32_t floor = args.relu ? 0 : INT32_MIN;
  if (out == nullptr) {
    int32_t low = 0, high = 0;
    for (int64_t i = begin; i < end; ++i) {
      const int32_t sum =
          align8<kRight>(a[i], left_a, right_a) + align8<kRight>(b[i], left_b, right_b);
      const int32_t wide = sum < floor ? floor : sum;
      low = wide < low ? wide : low;
      high = wide > high ? wide : high;
    }
    return {std::max(magnitude(low), magnitude(high)), 0};
  }
  // |sum| <= 2^24: a fixed exponent below the sum's saturates from 7 left shifts on (the product
  // is at least -2^31), one far above it gives 0 from 26 right shifts on.
  const int up = args.shift < 0 ? std::min(-args.shift, 7) : 0;
  const RoundEven32 round(std::clamp(args.shift, 0, 30));
  const auto limit = static_cast<int32_t>(mantissa_limit(args.bits));
  int32_t low = 0, high = 0;
  int64_t saturated = 0;
  for (int64_t block = begin; block < end; block += 1 << 20) {
    const int64_t stop = std::min(end, block + (1 << 20));
    int32_t clipped = 0;
    for (int64_t i = block; i < stop; ++i) {
      const int32_t sum =
          align8<kRight>(a[i], left_a, right_a) + align8<kRight>(b[i], left_b, right_b);
      const int32_t wide = sum < floor ? floor : sum;
      low = wide < low ? wide : low;
      high = wide > high ? wide : high;
      const int32_t rounded = round(wide * (int32_t{1} << up));
      const int32_t above = rounded < -limit ? -limit : rounded;
      const int32_t narrow = above > limit ? limit : above;
      clipped += narrow != rounded;
      out[i] = static_cast<int8_t>(narrow);
    }
    saturated += clipped;
  }
  return {std::max(magnitude(low), magnitude(high)), saturated};
}

inline WideStatistics add(const Add& args, int64_t begin, int64_t end) noexcept {
  return args.shift_a > 0 || args.shift_b > 0 ? add_aligned<true>(args, begin, end)
                                              : add_aligned<false>(args, begin, end);
}

// The whole of add_wide for one way to compute the wide sum.
template <typename T, typename Out, bool kRelu, typename Sum, typename Round, typename WideOf>
inline WideStatistics add_wide_of(const AddWide& args, const Round& round, const WideOf& wide_of,
                                  int64_t begin, int64_t end) noexcept {
  const T* __restrict a = args.a.as<T>();
  const T* __restrict b = args.b.as<T>();
  Out* __restrict out = args.out.as<Out>();
  Sum low = 0, high = 0;
  if (out == nullptr) {
    for (int64_t i = begin; i < end; ++i) {
      const Sum sum = wide_of(a[i], b[i]), wide = kRelu && sum < 0 ? 0 : sum;
      low = wide < low ? wide : low;
      high = wide > high ? wide : high;
    }
    return {std::max(magnitude(low), magnitude(high)), 0};
  }
  const auto limit = static_cast<Sum>(mantissa_limit(args.out.bits));
  int64_t saturated = 0;
  for (int64_t block = begin; block < end; block += 1 << 20) {
    const int64_t stop = std::min(end, block + (1 << 20));
    Sum clipped = 0;
    for (int64_t i = block; i < stop; ++i) {
      const Sum sum = wide_of(a[i], b[i]), wide = kRelu && sum < 0 ? 0 : sum;
      low = wide < low ? wide : low;
      high = wide > high ? wide : high;
      const Sum rounded = round(wide);
      const Sum above = rounded < -limit ? -limit : rounded;
      const Sum narrow = above > limit ? limit : above;
      clipped += narrow != rounded;
      out[i] = static_cast<Out>(narrow);
    }
    saturated += clipped;
  }
  return {std::max(magnitude(low), magnitude(high)), saturated};
}

template <typename T, typename Out, bool kRelu>
inline WideStatistics add_wide_as(const AddWide& args, int64_t begin, int64_t end) noexcept {
  const int left_a = args.shift_a < 0 ? -args.shift_a : 0;
  const int left_b = args.shift_b < 0 ? -args.shift_b : 0;
  if (args.shift_a > 0 || args.shift_b > 0) {
    // One addend lies below the alignment limit.
    const RoundEven64 right_a(args.shift_a), right_b(args.shift_b);
    const auto wide_of = [=](int64_t a, int64_t b) {
      return right_a(a * (int64_t{1} << left_a)) + right_b(b * (int64_t{1} << left_b));
    };
    return add_wide_of<T, Out, kRelu, int64_t>(args, RoundEven64(args.shift), wide_of, begin, end);
  }
  // |sum| <= 2^29 fits int32, also with the half of a shift by 30; from there on it rounds to 0.
  constexpr int kLargestLeft = 29 - 8 * int{sizeof(T)};
  if (left_a <= kLargestLeft && left_b <= kLargestLeft) {
    const auto wide_of = [=](int32_t a, int32_t b) {
      return a * (int32_t{1} << left_a) + b * (int32_t{1} << left_b);
    };
    const RoundEven32 round(std::min(args.shift, 30));
    return add_wide_of<T, Out, kRelu, int32_t>(args, round, wide_of, begin, end);
  }
  const auto wide_of = [=](int64_t a, int64_t b) {
    return a * (int64_t{1} << left_a) + b * (int64_t{1} << left_b);
  };
  return add_wide_of<T, Out, kRelu, int64_t>(args, RoundEven64(args.shift), wide_of, begin, end);
}

inline WideStatistics add_wide(const AddWide& args, int64_t begin, int64_t end) noexcept {
  return with_gradient_type(args.a.bits, [&](auto from) {
    return with_wide_gradient_type(args.out.bits, [&](auto to) {
      const auto add = args.relu ? add_wide_as<decltype(from), decltype(to), true>
                                 : add_wide_as<decltype(from), decltype(to), false>;
      return add(args, begin, end);
    });
  });
}
