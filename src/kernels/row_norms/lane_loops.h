// Norms of rows on vectors of int64; the rest of a row is computed element by element.
//
// Include inside an anonymous namespace of mantissa::kernels, after elements.h and
// lanes/arithmetic.h.

inline int64_t whole_lanes(int64_t channels) noexcept { return channels - channels % kLanes; }

inline void store_wide(int64_t* to, Lanes lanes) noexcept {
  std::memcpy(to, &lanes, sizeof(lanes));
}

template <typename T>
inline RowSums sums_of(const T* q, int64_t channels) noexcept {
  Lanes sums = {}, squares = {};
  const int64_t middle = whole_lanes(channels);
  for (int64_t i = 0; i < middle; i += kLanes) {
    const Lanes lanes = load(q + i);
    sums += lanes;
    squares += product(lanes, lanes);
  }
  return sums_from(q, middle, channels, {lane_sum(sums), lane_sum(squares)});
}

template <typename T>
inline void normalise_row(const T* q, const RowNorm& norm, int64_t channels, int32_t* x) noexcept {
  const int shift = norm.shift - kNormFraction;
  if (shift < 0 || shift > 62) return normalise_from(q, norm, 0, channels, x);
  const RoundEvenLanes round{RoundEven64(shift)};
  const Lanes count = all(channels), sum = all(norm.sum), factor = all(norm.factor);
  const int64_t middle = whole_lanes(channels);
  for (int64_t i = 0; i < middle; i += kLanes) {
    // C q - S has at most 29 bits.
    store(x + i, round(product(product(load(q + i), count) - sum, factor)));
  }
  normalise_from(q, norm, middle, channels, x);
}

inline void scale(const int32_t* x, const int16_t* scale, const int64_t* offset, int64_t channels,
                  int64_t* wide) noexcept {
  const int64_t middle = whole_lanes(channels);
  for (int64_t i = 0; i < middle; i += kLanes) {
    const Lanes scaled = product(load(x + i), load(scale + i));
    store_wide(wide + i, offset == nullptr ? scaled : scaled + load(offset + i));
  }
  scale_from(x, scale, offset, middle, channels, wide);
}

template <typename T>
inline GradientTotals totals_of(const RowNormGradient& args, const T* dy,
                                int64_t channels) noexcept {
  const ShiftRight upper(0, 32);
  Lanes sums = {}, low = {}, high = {};  // of products of 60 bits: their halves of 32
  const int64_t middle = whole_lanes(channels);
  for (int64_t i = 0; i < middle; i += kLanes) {
    const Lanes d = product(load(dy + i), load(args.scale + i));
    sums += d;
    const Lanes d_x = product(d, load(args.x + i));
    low += d_x & 0xffffffff;
    high += upper(wrapping(d_x));
  }
  const GradientTotals totals{args.centred ? lane_sum(sums) : 0,
                              (__int128{lane_sum(high)} << 32) + lane_sum(low)};
  return totals_from(args, dy, middle, channels, totals);
}

// (high * 2^bits + low) * 2^-shift to nearest even; low has fewer than 63 bits, and bits < shift.
struct RoundPairs {
  ShiftRight below;
  ShiftRight rest;
  Lanes mask;
  UnsignedLanes below_half;

  RoundPairs(int bits, int shift)
      : below(0, bits),
        rest(0, shift - bits),
        mask(all((int64_t{1} << bits) - 1)),
        below_half(wrapping(all((int64_t{1} << (shift - bits - 1)) - 1))) {}
  // `whole` times 2^shift is added to the sum.
  Lanes operator()(Lanes high, Lanes low, Lanes whole) const {
    const Lanes sum = high + below(wrapping(low));
    const Lanes cut = (low & mask) != 0 ? all(1) : Lanes{};
    const Lanes odd = (whole + rest(wrapping(sum))) & 1;
    return whole + rest(wrapping(sum) + below_half + wrapping(odd | cut));
  }
};

template <typename T>
inline void gradient_row(const RowNormGradient& args, const T* dy, int64_t channels,
                         int64_t* wide) noexcept {
  constexpr int kSplit = 18;  // centred gradients have at most 48 bits
  const GradientTotals totals = totals_of(args, dy, channels);
  if (args.shift - kSplit > 62) return gradient_from(args, totals, dy, 0, channels, channels, wide);
  constexpr int64_t kMask = (int64_t{1} << kNormFraction) - 1;
  const Lanes first = all(static_cast<int64_t>(totals.d_x >> (2 * kNormFraction))),
              second = all(static_cast<int64_t>(totals.d_x >> kNormFraction) & kMask),
              third = all(static_cast<int64_t>(totals.d_x) & kMask);
  const Lanes count = all(channels), sum = all(totals.d), factor = all(args.factor);
  const RoundPairs round_sum(kNormFraction, 2 * kNormFraction), round(kSplit, args.shift);
  const ShiftRight upper(0, kSplit);
  const int64_t middle = whole_lanes(channels);
  for (int64_t i = 0; i < middle; i += kLanes) {
    const Lanes x = load(args.x + i), d = product(load(dy + i), load(args.scale + i));
    const Lanes mean = round_sum(product(x, second), product(x, third), product(x, first));
    const Lanes centred = product(d, count) - sum - mean;
    const Lanes high = product(upper(wrapping(centred)), factor);
    const Lanes low = product(centred & ((int64_t{1} << kSplit) - 1), factor);
    store_wide(wide + i, round(high, low, Lanes{}));
  }
  gradient_from(args, totals, dy, middle, channels, channels, wide);
}

template <typename T>
inline void add_gradients_of(const int32_t* x, const T* dy, int64_t channels, int64_t* of_scale,
                             int64_t* of_offset) noexcept {
  const int64_t middle = whole_lanes(channels);
  for (int64_t i = 0; i < middle; i += kLanes) {
    const Lanes g = load(dy + i);
    store_wide(of_scale + i, load(of_scale + i) + product(g, load(x + i)));
    store_wide(of_offset + i, load(of_offset + i) + g);
  }
  add_gradients_from(x, dy, middle, channels, of_scale, of_offset);
}

inline RowSums sums(ConstMantissaSpan q, int64_t channels) noexcept {
  return with_value_type(q.bits,
                         [&](auto type) { return sums_of(q.as<decltype(type)>(), channels); });
}

inline void normalise(ConstMantissaSpan q, const RowNorm& norm, int64_t channels,
                      int32_t* x) noexcept {
  with_value_type(q.bits,
                  [&](auto type) { normalise_row(q.as<decltype(type)>(), norm, channels, x); });
}

inline void gradient(const RowNormGradient& args, ConstMantissaSpan dy, int64_t channels,
                     int64_t* wide) noexcept {
  if (dy.bits > 16) return kRowNormsReference.gradient(args, dy, channels, wide);
  with_gradient_type(
      dy.bits, [&](auto type) { gradient_row(args, dy.as<decltype(type)>(), channels, wide); });
}

inline void add_gradients(const int32_t* x, ConstMantissaSpan dy, int64_t channels,
                          int64_t* of_scale, int64_t* of_offset) noexcept {
  with_gradient_type(dy.bits, [&](auto type) {
    add_gradients_of(x, dy.as<decltype(type)>(), channels, of_scale, of_offset);
  });
}
