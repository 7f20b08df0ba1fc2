// The loops of wide numbers, written once and compiled per instruction set, each plain enough that
// compilers vectorise it.
//
// Include inside an anonymous namespace of mantissa::kernels, after wide.h and round_even_loops.h.

// Elements whose maximum is found before they are written. They stay in the L1 cache.
constexpr int64_t kNarrowedAtOnce = 1024;

inline uint64_t largest_magnitude(const int64_t* wide, int64_t count) noexcept {
  constexpr int kChains = 4;  // of comparisons, which do not wait for each other
  Lanes most[kChains];
  for (int chain = 0; chain < kChains; ++chain) most[chain] = Lanes{};
  const auto compare = [&](int chain, Lanes n) {
    const Lanes size = n < 0 ? -n : n;
    most[chain] = size > most[chain] ? size : most[chain];
  };
  int64_t i = 0;
  for (; i + kChains * kLanes <= count; i += kChains * kLanes) {
    for (int chain = 0; chain < kChains; ++chain) compare(chain, load(wide + i + chain * kLanes));
  }
  for (; i + kLanes <= count; i += kLanes) compare(0, load(wide + i));
  for (int chain = 1; chain < kChains; ++chain) compare(0, most[chain]);
  int64_t largest = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) largest = std::max<int64_t>(largest, most[0][lane]);
  for (; i < count; ++i) largest = std::max(largest, wide[i] < 0 ? -wide[i] : wide[i]);
  return static_cast<uint64_t>(largest);
}

// Writes rounded numbers that the result holds; Number holds the wide ones.
template <typename Number, typename To, typename Round>
inline void narrow_within(const int64_t* __restrict wide, const Round& round, int64_t count,
                          To* __restrict out) noexcept {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<To>(round(static_cast<Number>(wide[i])));
  }
}

// Returns how many saturated.
template <typename To>
inline int64_t narrow_saturated(const int64_t* __restrict wide, const RoundEven64& round,
                                int64_t limit, int64_t count, To* __restrict out) noexcept {
  int64_t saturated = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t rounded = round(wide[i]);
    const int64_t above = rounded < -limit ? -limit : rounded;
    const int64_t narrow = above > limit ? limit : above;
    saturated += narrow != rounded;
    out[i] = static_cast<To>(narrow);
  }
  return saturated;
}

// Few blocks have numbers that saturate, or that leave int32.
template <typename To>
inline WideStatistics narrow_range(const int64_t* wide, int shift, int64_t limit, int64_t count,
                                   To* out) noexcept {
  constexpr int kWordBits = 30;  // RoundEven32
  const RoundEven64 round(shift);
  WideStatistics found;
  for (int64_t at = 0; at < count; at += kNarrowedAtOnce) {
    const int64_t some = std::min(kNarrowedAtOnce, count - at);
    WideStatistics block{largest_magnitude(wide + at, some), 0};
    if (round(static_cast<int64_t>(block.maximum)) > limit) {
      block.saturated = narrow_saturated(wide + at, round, limit, some, out + at);
    } else if (shift <= kWordBits && block.maximum <= uint64_t{1} << kWordBits) {
      narrow_within<int32_t>(wide + at, RoundEven32(shift), some, out + at);
    } else {
      narrow_within<int64_t>(wide + at, round, some, out + at);
    }
    found += block;
  }
  return found;
}

inline WideStatistics narrow(const NarrowWide& args, int64_t begin, int64_t end) noexcept {
  const int64_t* const wide = args.wide + begin;
  const int64_t count = end - begin;
  if (args.out.data == nullptr) return {largest_magnitude(wide, count), 0};
  // Shifts to the left saturate, and those beyond 62 leave nothing: both are rare.
  if (args.shift < 0 || args.shift > 62) return kWideReference.narrow(args, begin, end);
  return with_wide_gradient_type(args.out.bits, [&](auto type) {
    return narrow_range(wide, args.shift, mantissa_limit(args.out.bits), count,
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

inline void plane(const Plane& args, int64_t begin, int64_t end) noexcept {
  const int16_t* __restrict in = args.in;
  int8_t* __restrict out = args.out;
  if (args.plane == 1) {
    for (int64_t i = begin; i < end; ++i) out[i] = static_cast<int8_t>(in[i] >> 8);
  } else {
    for (int64_t i = begin; i < end; ++i) out[i] = static_cast<int8_t>(in[i] ^ 128);
  }
}

// Sums of kChannels channels, which compilers add up without a loop, or of any number.
template <int kChannels, typename T>
inline void sums_of_groups(const T* __restrict in, int64_t channels, int64_t count,
                           int32_t* __restrict sums) noexcept {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t width = kChannels > 0 ? kChannels : channels;
    int32_t sum = 0;
    for (int64_t c = 0; c < width; ++c) sum += in[i * width + c];
    sums[i] = sum;
  }
}

inline void group_sums(const GroupSums& args, int64_t begin, int64_t end) noexcept {
  with_value_type(args.in.bits, [&](auto type) {
    using T = decltype(type);
    const auto of = args.channels == 1    ? sums_of_groups<1, T>
                    : args.channels == 16 ? sums_of_groups<16, T>
                    : args.channels == 32 ? sums_of_groups<32, T>
                                          : sums_of_groups<0, T>;
    const int64_t first = begin * args.groups;
    of(args.in.as<T>() + first * args.channels, args.channels, (end - begin) * args.groups,
       args.sums + first);
  });
}

inline void add(const int32_t* part, int32_t* sums, int64_t begin, int64_t end) noexcept {
  const auto* __restrict from = reinterpret_cast<const uint32_t*>(part);
  auto* __restrict to = reinterpret_cast<uint32_t*>(sums);
  for (int64_t i = begin; i < end; ++i) to[i] += from[i];
}

inline void first_sums_of_pixel(const int64_t* __restrict constants,
                                const int32_t* __restrict of_groups, int64_t factor, int64_t groups,
                                int64_t channels, int64_t* __restrict sums) noexcept {
  if (channels == 1) {
    for (int64_t g = 0; g < groups; ++g) sums[g] = constants[g] + factor * of_groups[g];
    return;
  }
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t more = factor * of_groups[g];
    for (int64_t o = 0; o < channels; ++o) {
      sums[g * channels + o] = constants[g * channels + o] + more;
    }
  }
}

inline void first_sums(const FirstSums& args, int64_t begin, int64_t end) noexcept {
  const int64_t outputs = args.groups * args.channels;
  for (int64_t i = begin; i < end; ++i) {
    int64_t* const sums = args.sums + i * outputs;
    if (args.of_groups == nullptr) {
      std::copy_n(args.constants, outputs, sums);
    } else {
      first_sums_of_pixel(args.constants, args.of_groups + i * args.groups, args.factor,
                          args.groups, args.channels, sums);
    }
  }
}

template <typename T, typename Round>
inline void rescale_by(const T* __restrict in, const Round& round, bool adds, int64_t count,
                       int64_t* __restrict wide) noexcept {
  if (adds) {
    for (int64_t i = 0; i < count; ++i) wide[i] += round(int64_t{in[i]});
  } else {
    for (int64_t i = 0; i < count; ++i) wide[i] = round(int64_t{in[i]});
  }
}

inline void rescale(const Rescaled& args, int64_t begin, int64_t end) noexcept {
  constexpr int kExactBits = 61;  // shifts to the left saturate beyond
  const int left = -args.shift;
  if (left + args.in.bits > kExactBits || args.shift > 62) {
    return kWideReference.rescale(args, begin, end);
  }
  with_wide_gradient_type(args.in.bits, [&](auto type) {
    const auto* const in = args.in.as<decltype(type)>() + begin;
    int64_t* const wide = args.wide + begin;
    if (left > 0) {
      const auto shifted = [left](int64_t n) {
        return static_cast<int64_t>(static_cast<uint64_t>(n) << left);
      };
      rescale_by(in, shifted, args.adds, end - begin, wide);
    } else {
      rescale_by(in, RoundEven64(args.shift), args.adds, end - begin, wide);
    }
  });
}

inline void shift_sums(const ShiftedSums& args, int64_t begin, int64_t end) noexcept {
  const int32_t* __restrict sums = args.sums;
  const int32_t* __restrict shifts = args.shifts;
  int64_t* __restrict wide = args.wide;
  for (int64_t i = begin; i < end; ++i) {
    wide[i] = static_cast<int64_t>(static_cast<uint64_t>(int64_t{sums[i]})
                                   << static_cast<uint64_t>(shifts[i]));
  }
}

// normal_probability_q30 without a branch, by size(n), which gives |n| * 2^exponent in Q30.
template <typename T, typename Size>
inline void gelu_by(const T* __restrict in, const Size& size, int64_t count,
                    int64_t* __restrict wide) noexcept {
  constexpr int kInStep = 30 - kNormalStepBits;
  constexpr int64_t kOne = int64_t{1} << 30, kEnd = kNormalSteps << kInStep;
  const int64_t* __restrict probability = ref_normal_tables.probability;
  const int64_t* __restrict density = ref_normal_tables.density;
  const RoundEven64 by_step(kNormalStepBits), by_one(30);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t n = in[i], exact = size(n < 0 ? -n : n);
    const int64_t x = exact < kEnd ? exact : kEnd;
    const int64_t step = x >> kInStep;
    const int64_t t = (x & ((int64_t{1} << kInStep) - 1)) << kNormalStepBits;
    const int64_t a = probability[step], difference = probability[step + 1] - a;
    const int64_t da = by_step(density[step]), db = by_step(density[step + 1]);
    const int64_t square = 3 * difference - 2 * da - db, cube = da + db - 2 * difference;
    const int64_t slope = da + by_one((square + by_one(cube * t)) * t);
    const int64_t above = a + by_one(slope * t);
    const int64_t found = n < 0 ? kOne - above : above;
    const int64_t least = found < 0 ? 0 : found;
    wide[i] = n * (least > kOne ? kOne : least);
  }
}

inline void gelu(const Gelu& args, int64_t begin, int64_t end) noexcept {
  constexpr int kMostLeft = 45;  // from 16 bits
  const int left = args.exponent + 30;
  if (left > kMostLeft || left < -62) return kWideReference.gelu(args, begin, end);
  with_value_type(args.in.bits, [&](auto type) {
    const auto* const in = args.in.as<decltype(type)>() + begin;
    int64_t* const wide = args.wide + begin;
    if (left > 0) {
      gelu_by(
          in, [left](int64_t n) { return n << left; }, end - begin, wide);
    } else {
      gelu_by(in, RoundEven64(-left), end - begin, wide);
    }
  });
}
