// Products of few rows, compiled for each instruction set. Weights are widened to 16 bits, so that
// rows of 8 and of 16 bits are the same products of pairs.
//
// Include inside an anonymous namespace of mantissa::kernels, after the set's lanes of integers.

constexpr int64_t kWords = 2 * kLanes, kHalves = 2 * kWords;
// A lane adds up kExactDepth / kWords products of 8 and 16 bits, at most 512: they fit int32.
constexpr int64_t kExactDepth = 4096;
static_assert(kExactDepth / kWords <= 512);

// Lane i: the sum of two lanes that are kStep apart, of `a` or, where i has the bit kStep, of `b`.
template <int64_t kStep, int64_t... kPlaces>
inline Words folded(Words a, Words b, std::integer_sequence<int64_t, kPlaces...>) noexcept {
  return __builtin_shufflevector(
             a, b, ((kPlaces & kStep) == 0 ? kPlaces : kWords + kPlaces - kStep)...) +
         __builtin_shufflevector(
             a, b, ((kPlaces & kStep) == 0 ? kPlaces + kStep : kWords + kPlaces)...);
}

// Lane i of the result: the sum of all lanes of words[i], of kWords vectors. Destroys them.
template <int64_t kStep = 1>
inline Words sums_of_lanes(Words* words) noexcept {
  if constexpr (kStep == kWords) {
    return words[0];
  } else {
    constexpr auto kPlaces = std::make_integer_sequence<int64_t, kWords>();
    for (int64_t i = 0; i < kWords / kStep; i += 2) {
      words[i / 2] = folded<kStep>(words[i], words[i + 1], kPlaces);
    }
    return sums_of_lanes<2 * kStep>(words);
  }
}

inline void add_lanes(Words* words, int64_t count, int32_t* to) noexcept {
  const Words sums = sums_of_lanes(words);
  for (int64_t i = 0; i < count; ++i) to[i] += sums[i];
}

// Sums of lanes may leave int32: their halves of 16 bits are added up apart.
inline void add_lanes(Words* words, int64_t count, int64_t* to) noexcept {
  Words low[kWords];
  for (int64_t i = 0; i < kWords; ++i) {
    low[i] = words[i] & 0xffff;
    words[i] >>= 16;
  }
  const Words lows = sums_of_lanes(low), highs = sums_of_lanes(words);
  for (int64_t i = 0; i < count; ++i) to[i] += highs[i] * int64_t{1 << 16} + lows[i];
}

// Sums of products of a row by lanes, of whole vectors of its numbers.
inline Words row_words(const int16_t* x, const int8_t* weights, int64_t depth) noexcept {
  const auto products = [&](Words sums, int64_t c) {
    return add_products(sums, reinterpret_cast<Words>(load_halves(x + c)),
                        reinterpret_cast<Words>(load_halves(weights + c)));
  };
  Words first = {}, second = {};
  int64_t c = 0;
  for (; c + 2 * kHalves <= depth; c += 2 * kHalves) {
    first = products(first, c);
    second = products(second, c + kHalves);
  }
  if (c + kHalves <= depth) first = products(first, c);
  return first + second;
}

// Adds products of `depth` numbers with up to kWords rows of weights, `stride` apart, to the sums.
// Weights are read in the order of memory: several rows at once are read at a third of its speed.
template <typename Sum>
inline void add_channels(const int16_t* x, const int8_t* weights, int64_t stride, int64_t depth,
                         int64_t count, Sum* sums) noexcept {
  Words words[kWords] = {};
  for (int64_t i = 0; i < count; ++i) {
    const int8_t* const row = weights + i * stride;
    words[i] = row_words(x, row, depth);
    for (int64_t c = depth / kHalves * kHalves; c < depth; ++c) sums[i] += int32_t{x[c]} * row[c];
  }
  add_lanes(words, count, sums);
}

template <typename T, typename Sum>
inline void multiply_rows(const RowProducts& p, int64_t begin, int64_t end) noexcept {
  int16_t widened[kExactDepth];
  for (int64_t r = 0; r < p.rows; ++r) {
    const T* const input = p.input.as<T>() + r * p.depth;
    Sum* const sums = static_cast<Sum*>(p.sums) + r * p.channels;
    std::fill(sums + begin, sums + end, Sum{0});
    for (int64_t first = 0; first < p.depth; first += kExactDepth) {
      const int64_t depth = std::min(kExactDepth, p.depth - first);
      std::copy_n(input + first, depth, widened);
      for (int64_t o = begin; o < end; o += kWords) {
        add_channels(widened, p.weights + o * p.depth + first, p.depth, depth,
                     std::min(kWords, end - o), sums + o);
      }
    }
  }
}

inline void multiply(const RowProducts& p, int64_t begin, int64_t end) noexcept {
  if (p.input.bits <= 8) return multiply_rows<int8_t, int32_t>(p, begin, end);
  multiply_rows<int16_t, int64_t>(p, begin, end);
}
