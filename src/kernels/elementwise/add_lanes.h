// add and add_wide in vectors, for sums that a lane holds together with the half that rounding
// adds. Nothing is clipped or counted: a block that needs it goes to the loop that does.
//
// Include inside an anonymous namespace of mantissa::kernels, after elementwise_loops.h and the
// lanes' avx2.h or avx512vnni.h.

constexpr int64_t kAddBlock = 2048;

// 32 lanes or 16 of int16, for 8-bit numbers.
struct AddHalves {
  using Vector = Halves;
  using Lane = int16_t;
  // Largest shifts of addends, and of the sum: |a + 2^7 b| <= 2^14 + 2^7.
  static constexpr int kLargestLeft = 7, kLargestShift = 14;

  static Vector load(const int8_t* from) { return load_halves(from); }
  static void store(int8_t* to, Vector numbers) { store_halves(to, numbers); }
  static Vector left(Vector numbers, int count) {
    return numbers * static_cast<int16_t>(1 << count);
  }
  static Vector right(Vector numbers, int count) { return shift_right(numbers, count); }
};

// 16 lanes or 8 of int32, for gradients, and for 8-bit numbers whose exponents are far apart.
template <typename T>
struct AddWords {
  using Vector = Words;
  using Lane = int32_t;
  static constexpr int kLargestLeft = 29 - 8 * int{sizeof(T)}, kLargestShift = 30;

  static Vector load(const T* from) { return load_words(from); }
  static void store(T* to, Vector numbers) { store_words(to, numbers); }
  static Vector left(Vector numbers, int count) { return numbers << count; }
  static Vector right(Vector numbers, int count) { return numbers >> count; }
};

// Whether a condition's vector, of zeros and -1, has any -1.
template <typename Vector>
inline bool is_any(Vector condition) noexcept {
  uint64_t parts[sizeof(Vector) / sizeof(uint64_t)], all = 0;
  std::memcpy(parts, &condition, sizeof(condition));
  for (const uint64_t part : parts) all |= part;
  return all != 0;
}

template <typename Lane, typename Vector>
inline uint64_t largest_magnitude(Vector low, Vector high) noexcept {
  Lane lanes[2 * sizeof(Vector) / sizeof(Lane)];
  std::memcpy(lanes, &low, sizeof(low));
  std::memcpy(lanes + sizeof(Vector) / sizeof(Lane), &high, sizeof(high));
  uint64_t largest = 0;
  for (const Lane lane : lanes) largest = std::max(largest, magnitude(lane));
  return largest;
}

template <typename Vector, typename Lane>
inline Vector in_all_lanes(int64_t value) noexcept {
  return static_cast<Lane>(value) - Vector{};
}

// out = narrow(relu?(a + 2^left * b)). The elements left over at the end, and those that must be
// clipped, use plain(begin, end).
template <typename Ways, bool kRelu, typename T, typename Plain>
inline WideStatistics add_vectors(const T* __restrict a, const T* __restrict b, int left, int shift,
                                  int bits, T* __restrict out, int64_t begin, int64_t end,
                                  const Plain& plain) noexcept {
  using Vector = typename Ways::Vector;
  using Lane = typename Ways::Lane;
  constexpr auto kCount = static_cast<int64_t>(sizeof(Vector) / sizeof(Lane));
  const RoundEven32 round(shift);
  const Vector below_half = in_all_lanes<Vector, Lane>(round.below_half);
  const Vector odd = in_all_lanes<Vector, Lane>(round.odd), zero = {};
  // The least sum that has to be clipped: the limit is odd, so that a tie above it rounds up.
  const int64_t first_clipped =
      (mantissa_limit(bits) << shift) + (shift == 0 ? 1 : int64_t{1} << (shift - 1));
  const Vector too_high = in_all_lanes<Vector, Lane>(
      std::min<int64_t>(first_clipped, std::numeric_limits<Lane>::max()));
  Vector low = {}, high = {};
  int64_t saturated = 0;
  const int64_t vectors_end = begin + (end - begin) / kCount * kCount;
  for (int64_t block = begin; block < vectors_end; block += kAddBlock) {
    const int64_t stop = std::min(vectors_end, block + kAddBlock);
    Vector block_low = {}, block_high = {};
    for (int64_t i = block; i < stop; i += kCount) {
      Vector sum = Ways::load(a + i) + Ways::left(Ways::load(b + i), left);
      if constexpr (kRelu) sum = sum < zero ? zero : sum;
      block_low = sum < block_low ? sum : block_low;
      block_high = sum > block_high ? sum : block_high;
      const Vector tie = Ways::right(sum, shift) & odd;
      Ways::store(out + i, Ways::right(sum + below_half + tie, shift));
    }
    if (is_any((block_high >= too_high) | (-block_low >= too_high))) {
      saturated += plain(block, stop).saturated;
    }
    low = block_low < low ? block_low : low;
    high = block_high > high ? block_high : high;
  }
  const WideStatistics rest = plain(vectors_end, end);
  return {std::max(rest.maximum, largest_magnitude<Lane>(low, high)), saturated + rest.saturated};
}

// If vectors can do all of it: one addend as it is, the other one and the sum in range.
template <typename Ways, typename T, typename Sum, typename Plain>
inline WideStatistics add_fitting(const T* a, const T* b, T* out, int bits, const Sum& args,
                                  int64_t begin, int64_t end, const Plain& plain) noexcept {
  const int least = std::min(args.shift_a, args.shift_b);
  const bool fits = out != nullptr && std::max(args.shift_a, args.shift_b) == 0 &&
                    -least <= Ways::kLargestLeft && args.shift >= 0 &&
                    args.shift <= Ways::kLargestShift;
  if (!fits) return plain(begin, end);
  if (args.shift_a < 0) std::swap(a, b);
  const auto add =
      args.relu ? add_vectors<Ways, true, T, Plain> : add_vectors<Ways, false, T, Plain>;
  return add(a, b, -least, args.shift, bits, out, begin, end, plain);
}

inline WideStatistics add_by_lanes(const Add& args, int64_t begin, int64_t end) noexcept {
  const auto plain = [&](int64_t from, int64_t to) { return add(args, from, to); };
  const auto add_fitting_to = [&](auto ways) {
    return add_fitting<decltype(ways)>(args.a, args.b, args.out, args.bits, args, begin, end,
                                       plain);
  };
  const bool narrow = std::min(args.shift_a, args.shift_b) >= -AddHalves::kLargestLeft &&
                      args.shift <= AddHalves::kLargestShift;
  return narrow ? add_fitting_to(AddHalves{}) : add_fitting_to(AddWords<int8_t>{});
}

inline WideStatistics add_wide_by_lanes(const AddWide& args, int64_t begin, int64_t end) noexcept {
  const auto plain = [&](int64_t from, int64_t to) { return add_wide(args, from, to); };
  return with_gradient_type(args.a.bits, [&](auto type) {
    using T = decltype(type);
    const bool same = args.out.bits <= 16 && (args.out.bits > 8) == (sizeof(T) == 2);
    if (!same) return plain(begin, end);
    return add_fitting<AddWords<T>>(args.a.as<T>(), args.b.as<T>(), args.out.as<T>(), args.out.bits,
                                    args, begin, end, plain);
  });
}
