// Adam with vectors of int64, int32 and double, of 2 * kLanes elements at a time.
//
// Rows of a table whose tokens were in no example yet have g = 0 and m = 0, and one s. They are
// passed over quickly, with the same results.
//
// Include inside an anonymous namespace of mantissa::kernels, after optimizer_loops.h, lane_loops.h
// and the set's lanes of reals.

inline Reals all_reals(double value) noexcept { return value - Reals{}; }

// Integers to nearest, ties to even, as doubles that end with their low 32 bits. |x| < 2^31.
constexpr double kIntegersFrom = 0x1.8p52;
inline Reals integers_behind(Reals x) noexcept { return x + kIntegersFrom; }

inline Words load_gradients(const int32_t* from) noexcept { return load_words(from); }
inline Words load_gradients(const int64_t* from) noexcept {
  return interleaved(load_evens(from), load_odds(from));
}

// Roots and quotients by way of doubles, with the results of exact ones.
struct RealArithmetic {
  double numerator_unit;

  explicit RealArithmetic(const Adam& args)
      : numerator_unit(args.numerator_shift < 0
                           ? 0.0
                           : static_cast<double>(int64_t{1} << args.numerator_shift)) {}
  // floor(sqrt(square)), 0 <= square <= 2^52; the low 32 bits.
  static Lanes floor_root(Lanes square) noexcept {
    const Reals x = to_reals(square), least = all_reals(1);
    const Reals integers = integers_behind(near_root(x < least ? least : x));
    const Reals nearest = integers - kIntegersFrom;
    // One too many, if not equal: true is -1.
    return reinterpret_cast<Lanes>(integers) + (nearest * nearest > x);
  }
  // Clipping the numerator clips the quotient. The low 32 bits; `clips` is -1 if it did.
  Lanes quotient(Lanes first, Lanes denominator, Lanes& clips) const noexcept {
    const Reals d = to_reals(denominator), n = to_reals(first) * numerator_unit;
    const Reals used = clipped(n, d * static_cast<double>(kAdamDirectionLimit));
    clips = used != n;
    return reinterpret_cast<Lanes>(integers_behind(near_quotient(used, d)));
  }
};

// The same digit by digit, without floating point.
struct IntegerArithmetic {
  int numerator_shift;
  bool is_zero;

  explicit IntegerArithmetic(const Adam& args)
      : numerator_shift(std::max(args.numerator_shift, 0)), is_zero(args.numerator_shift < 0) {}
  static Lanes floor_root(Lanes square) noexcept {
    Lanes root = {};
    for (int64_t bit = int64_t{1} << 52; bit != 0; bit >>= 2) {
      const Lanes next = root + bit, fits = square >= next;
      square -= next & fits;
      root = (root >> 1) + (fits & bit);
    }
    return root;
  }
  Lanes quotient(Lanes first, Lanes denominator, Lanes& clips) const noexcept {
    const Lanes sign = first < 0, size = (first ^ sign) - sign;
    const Lanes n = is_zero ? Lanes{} : as_signed(wrapping(size) << numerator_shift);
    Lanes part = as_signed(wrapping(denominator) << kAdamLimitBits);
    clips = n > part;
    Lanes rest = clips ? part : n, digits = {};
    for (int bit = kAdamLimitBits; bit >= 0; --bit) {
      const Lanes fits = rest >= part;
      rest -= part & fits;
      digits = digits + digits - fits;
      part = as_signed(wrapping(part) >> 1);
    }
    // To nearest, ties to even.
    const Lanes twice = rest + rest, is_odd = -(digits & 1);
    digits -= (twice > denominator) | ((twice == denominator) & is_odd);
    return (digits ^ sign) - sign;
  }
};

using UnsignedWords [[gnu::vector_size(sizeof(Words))]] = uint32_t;

// RoundEven32 of words n, 0 <= n < 2^31, for shifts in [0, 31].
struct RoundEvenWords {
  UnsignedWords shift, below_half, odd;

  explicit RoundEvenWords(int shift_)
      : shift(static_cast<uint32_t>(shift_) - UnsignedWords{}),
        below_half((shift_ == 0 ? 0 : (uint32_t{1} << (shift_ - 1)) - 1) - UnsignedWords{}),
        odd((shift_ == 0 ? 0U : 1U) - UnsignedWords{}) {}
  Words operator()(Words words) const {
    const auto n = reinterpret_cast<UnsignedWords>(words);
    return reinterpret_cast<Words>((n + below_half + ((n >> shift) & odd)) >> shift);
  }
};

// M and S.
struct AdamSumLanes {
  Lanes gradient_factor;
  Factor first_factor;
  RoundEvenWords magnitude, aligned_root;
  Words magnitude_used, root_left;
  Lanes square_factor;
  ShiftRight cut = {0, kAdamCutBits};

  // Nothing is left of |g| < 2^31 from a shift of 32 on, and of s < 2^15 from one of 16 on.
  explicit AdamSumLanes(const Adam& args)
      : gradient_factor(all(args.gradient_multiplier)),
        first_factor(args.first_multiplier),
        magnitude(std::min(args.magnitude_shift, 31)),
        aligned_root(std::clamp(-args.root_align, 0, 31)),
        magnitude_used(all_words(args.magnitude_shift > 31 ? 0 : -1)),
        root_left(all_words(std::max(args.root_align, 0))),
        square_factor(all(args.square_multiplier)) {}
  Pair first(Words g, Words m) const {
    return {first(evens_of(g), evens_of(m)), first(odds_of(g), odds_of(m))};
  }
  // (r^2 * (2^24 - c) + h^2 * c) >> 10 = (r^2 << 14) + ((h - r) * ((h + r) * c) >> 10).
  Pair square(Words g, Words s) const {
    const Words h = magnitude(g < 0 ? -g : g) & magnitude_used, r = aligned_root(s << root_left);
    const Words difference = h - r, sum = h + r;
    return {square(evens_of(r), evens_of(difference), evens_of(sum)),
            square(odds_of(r), odds_of(difference), odds_of(sum))};
  }

 private:
  Lanes first(Lanes g, Lanes m) const {
    const UnsignedLanes high = wrapping(product(m, first_factor.high));
    return as_signed(wrapping(product(g, gradient_factor)) +
                     wrapping(product(m, first_factor.low)) + (high << 32));
  }
  Lanes square(Lanes r, Lanes difference, Lanes sum) const {
    constexpr int kLeft = kAdamWeightBits - kAdamCutBits;
    const UnsignedLanes weighted = weight(difference, sum);
    return as_signed((wrapping(product(r, r)) << kLeft) + wrapping(cut(weighted)));
  }
  // Their product times c, below 2^62.
  UnsignedLanes weight(Lanes difference, Lanes sum) const {
    if constexpr (kHas64BitLanes) {
      return wrapping(product(difference, sum)) * wrapping(square_factor);
    }
    constexpr int kHalf = 24;  // sum * c has 44 bits
    const UnsignedLanes n = wrapping(product(sum, square_factor));
    const Lanes low = as_signed(n & ((uint64_t{1} << kHalf) - 1)), high = as_signed(n >> kHalf);
    return wrapping(product(difference, low)) + (wrapping(product(difference, high)) << kHalf);
  }
};

// Counts of clipped numbers, per lane and negative.
struct ClippedAdam {
  Lanes first = {}, direction = {};
  Words root = {};

  int64_t count() const {
    int64_t total = 0;
    for (int64_t lane = 0; lane < kLanes; ++lane) total -= first[lane] + direction[lane];
    for (int64_t word = 0; word < kWords; ++word) total -= root[word];
    return total;
  }
};

// m', s' and d from M and S.
template <typename Arithmetic>
struct AdamDirectionLanes {
  UnsignedLanes first_shift, first_offset;
  Lanes limit = all(mantissa_limit(16));
  Words root_shift, root_offset, root_limit, root_floor, root_multiplier, epsilon;
  Arithmetic arithmetic;

  explicit AdamDirectionLanes(const Adam& args)
      : first_shift(wrapping(all(args.first_shift))),
        first_offset(wrapping(all(args.first_offset))),
        root_shift(all_words(args.root_shift)),
        root_offset(all_words(static_cast<int32_t>(args.root_offset))),
        root_limit(all_words(static_cast<int32_t>(mantissa_limit(16)))),
        root_floor(all_words(static_cast<int32_t>(args.root_floor))),
        root_multiplier(all_words(static_cast<int32_t>(args.root_multiplier))),
        epsilon(all_words(static_cast<int32_t>(args.epsilon))),
        arithmetic(args) {}
  Lanes first(Lanes sum, ClippedAdam& clips) const {
    const Lanes sign = sum < 0;
    const UnsignedLanes size = wrapping((sum ^ sign) - sign);
    const Lanes m = as_signed((size + first_offset) >> first_shift), over = m > limit;
    clips.first += over;
    return ((over ? limit : m) ^ sign) - sign;
  }
  Words root(Pair squares, ClippedAdam& clips) const {
    const Words n =
        interleaved(Arithmetic::floor_root(squares.evens), Arithmetic::floor_root(squares.odds));
    const Words s = (n + root_offset) >> root_shift, over = s > root_limit;
    clips.root += over;
    const Words most = over ? root_limit : s;
    return most < root_floor ? root_floor : most;
  }
  Words denominator(Words root) const {
    const Words sum = root * root_multiplier + epsilon;
    return sum < 1 ? all_words(1) : sum;
  }
  // The low 32 bits.
  Lanes direction(Lanes first, Lanes denominator, ClippedAdam& clips) const {
    Lanes clipped_lanes;
    const Lanes d = arithmetic.quotient(first, denominator, clipped_lanes);
    clips.direction += clipped_lanes;
    return d;
  }
};

// Whether g and m of kWords elements are zero.
template <typename Sum>
inline bool are_idle(const Sum* gradient, const int16_t* first) noexcept {
  return all_zero(gradient) && all_zero(load_words(first));
}

// s' if g and m are zero, for the last s.
struct IdleRoot {
  int32_t from = -1;
  Words to = {};
  int64_t clipped = 0;  // of kWords
};

// If g and m are zero (so their results stay zero) and all s are the same: replaces s. Else false.
template <typename Arithmetic>
MANTISSA_INLINE bool move_idle(const AdamSumLanes& sums, const AdamDirectionLanes<Arithmetic>& next,
                               int16_t* root, IdleRoot& idle) noexcept {
  const Words s = load_words(root);
  if (!all_zero(s ^ all_words(*root))) return false;
  if (idle.from != *root) {
    ClippedAdam clips;
    idle.from = *root;
    idle.to = next.root(sums.square(Words{}, s), clips);
    idle.clipped = clips.count();
  }
  store_words(root, idle.to);
  return true;
}

// kWords elements, all of them there.
template <typename Arithmetic, typename Sum>
MANTISSA_INLINE void adam_words(const AdamSumLanes& sums,
                                const AdamDirectionLanes<Arithmetic>& next, Sum* gradient,
                                int16_t* first, int16_t* root, ClippedAdam& clips) noexcept {
  const Words g = load_gradients(gradient);
  const Pair m = sums.first(g, load_words(first));
  const Lanes evens = next.first(m.evens, clips), odds = next.first(m.odds, clips);
  const Words s = next.root(sums.square(g, load_words(root)), clips);
  const Words d = next.denominator(s);
  store_words(first, interleaved(evens, odds));
  store_words(root, s);
  store_words(gradient, interleaved(next.direction(evens, evens_of(d) & UINT32_MAX, clips),
                                    next.direction(odds, odds_of(d), clips)));
}

template <typename Arithmetic, typename Sum>
inline int64_t adam_directions(Sum* gradient, const Adam& args, int64_t begin,
                               int64_t end) noexcept {
  const AdamSumLanes sums(args);
  const AdamDirectionLanes<Arithmetic> next(args);
  ClippedAdam clips;
  IdleRoot idle;
  int64_t clipped_idle = 0;
  int64_t i = begin;
  for (; i + kWords <= end; i += kWords) {
    if (are_idle(gradient + i, args.first + i) && move_idle(sums, next, args.root + i, idle)) {
      clipped_idle += idle.clipped;
      continue;
    }
    adam_words(sums, next, gradient + i, args.first + i, args.root + i, clips);
  }
  if (i < end) {  // the others are zero, and clip nothing
    Sum gradients[kWords] = {};
    int16_t firsts[kWords] = {}, roots[kWords] = {};
    std::copy_n(gradient + i, end - i, gradients);
    std::copy_n(args.first + i, end - i, firsts);
    std::copy_n(args.root + i, end - i, roots);
    adam_words(sums, next, gradients, firsts, roots, clips);
    std::copy_n(gradients, end - i, gradient + i);
    std::copy_n(firsts, end - i, args.first + i);
    std::copy_n(roots, end - i, args.root + i);
  }
  return clips.count() + clipped_idle;
}

template <typename Arithmetic>
inline int64_t adam_direction(const GradientSums& gradient, const Adam& args, int64_t begin,
                              int64_t end) noexcept {
  return with_sum_type(gradient.bits, [&](auto type) {
    return adam_directions<Arithmetic>(gradient.as<decltype(type)>(), args, begin, end);
  });
}

// g of kWords elements, and the extremes of M and S.
template <typename Weight, typename Sum>
inline AdamExtremes adam_sums(const Update& args_, const Adam& adam, int64_t begin,
                              int64_t end) noexcept {
  DirectionLanes<Weight, Sum, int16_t> direction(args_);
  const Update& args = direction.wide.args;
  const AdamSumLanes sums(adam);
  const bool decays = args.decay_multiplier != 0;
  Sum* const gradient = args.gradient.as<Sum>();
  ExtremeLanes<Lanes> firsts = {all(INT64_MAX), all(INT64_MIN)};
  Lanes largest = {};
  const auto add_square = [&](const Pair& square) {
    const Lanes larger = square.evens > square.odds ? square.evens : square.odds;
    largest = larger > largest ? larger : largest;
  };
  Words idle_roots = all_words(-1);
  for (int64_t i = begin; i < end; i += kWords) {
    if (!decays && are_idle(gradient + i, adam.first + i)) {
      const Words s = load_words(adam.root + i);
      idle_roots = s > idle_roots ? s : idle_roots;
      continue;
    }
    const Words g = direction(i, decays ? load_value<Weight>(args, i) : Words{});
    store_words(gradient + i, g);
    const Pair first = sums.first(g, load_words(adam.first + i));
    firsts.add(first.evens);
    firsts.add(first.odds);
    add_square(sums.square(g, load_words(adam.root + i)));
  }
  if (idle_roots[0] >= 0) {  // M is zero, and S grows with s
    firsts.add(Lanes{});
    add_square(sums.square(Words{}, idle_roots));
  }
  AdamExtremes total;
  if (begin < end) total.first = firsts.total();
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    total.largest_square = std::max<int64_t>(total.largest_square, largest[lane]);
  }
  return total;
}

template <typename Weight, typename Sum>
inline AdamExtremes adam_extremes_of(const Update& args, const Adam& adam, int64_t begin,
                                     int64_t end) noexcept {
  if (!WideLanes<Weight, Sum, int16_t>::can_do(args)) return adam_extremes(args, adam, begin, end);
  const int64_t middle = end - (end - begin) % kWords;
  const AdamExtremes most = adam_sums<Weight, Sum>(args, adam, begin, middle);
  const AdamExtremes rest = adam_extremes(args, adam, middle, end);
  return {combined(most.first, rest.first), std::max(most.largest_square, rest.largest_square)};
}

inline AdamExtremes adam_extremes_lanes(const Update& args, const Adam& adam, int64_t begin,
                                        int64_t end) noexcept {
  return with_sum_type(args.gradient.bits, [&](auto type) {
    using Sum = decltype(type);
    return args.weight_bits <= 8 ? adam_extremes_of<int8_t, Sum>(args, adam, begin, end)
                                 : adam_extremes_of<int16_t, Sum>(args, adam, begin, end);
  });
}
