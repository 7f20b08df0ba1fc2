// The loops of row_loops.h, written once and compiled per instruction set.
//
// Include inside an anonymous namespace of mantissa::kernels::depthwise, after the set's lanes of
// integers.

constexpr int64_t kWords = 2 * kLanes;

inline Words narrowed(Words words, int32_t) { return words; }

inline Words load_pairs(const Pair* from) {
  Words pairs;
  std::memcpy(&pairs, from, sizeof(pairs));
  return pairs;
}

// Rows are too short for the processor to fetch ahead by itself.
constexpr int64_t kFetchedLines = 16;  // of the cache

template <typename T>
inline void pair_numbers(const T* __restrict first, const T* __restrict second, int64_t count,
                         Pair* __restrict to) {
  constexpr int64_t kLine = 64 / sizeof(T);
  const auto pair_of = [&](int64_t i) {
    return static_cast<uint16_t>(first[i]) | static_cast<uint32_t>(second[i]) << 16;
  };
  int64_t line = 0;
  for (; line + kLine <= count; line += kLine) {
    __builtin_prefetch(first + line + kFetchedLines * kLine);
    __builtin_prefetch(second + line + kFetchedLines * kLine);
    for (int64_t i = line; i < line + kLine; ++i) to[i] = pair_of(i);
  }
  for (int64_t i = line; i < count; ++i) to[i] = pair_of(i);
}

template <typename T>
inline void pair_pixels(const Pairing& p) {
  const auto* first = static_cast<const T*>(p.first.data);
  const auto* second = static_cast<const T*>(p.second.data);
  const int64_t channels = p.channels;
  if (channels == p.padded_channels && p.first.step == channels && p.second.step == channels) {
    pair_numbers(first, second, p.pixels * channels, p.pairs);
    return;
  }
  for (int64_t x = 0; x < p.pixels; ++x) {
    Pair* to = p.pairs + x * p.padded_channels;
    pair_numbers(first + x * p.first.step, second + x * p.second.step, channels, to);
    for (int64_t c = channels; c < p.padded_channels; ++c) to[c] = 0;
  }
}

inline void pair(const Pairing& p) noexcept {
  if (p.bits <= 8) {
    pair_pixels<int8_t>(p);
  } else {
    pair_pixels<int16_t>(p);
  }
}

// The use of sums. kRounded: none is clipped, and all have to be written again if clips().
// kCounted: they are counted, and nothing is written.
enum class Sums { kRounded, kClipped, kCounted };

// Writes sums as T (int32_t: as they are) and keeps the statistics, lane by lane.
template <typename T, Sums kSums>
struct Writer {
  Words low = {}, high = {}, unchanged = {};
  Words below_half, odd, limit;
  int shift;
  WideCounts* counts;

  explicit Writer(const CorrelationRow& row)
      : below_half(Words{} + (row.shift == 0 ? 0 : (int32_t{1} << (row.shift - 1)) - 1)),
        odd(Words{} + (row.shift == 0 ? 0 : 1)),
        limit(Words{} + row.limit),
        shift(row.shift),
        counts(row.counts) {}

  void write(Words sum, T* to, int64_t width) {
    if constexpr (kSums == Sums::kCounted) {
      int32_t lanes[kWords];
      std::memcpy(lanes, &sum, sizeof(sum));
      return counts->add(lanes, width);
    }
    low = sum < low ? sum : low;
    high = sum > high ? sum : high;
    Words result = sum;
    if constexpr (sizeof(T) != sizeof(int32_t)) result = rounded(sum);
    if constexpr (kSums == Sums::kClipped) {
      const Words any = result;
      result = result > limit ? limit : result;
      result = result < -limit ? -limit : result;
      unchanged += result == any;
    }
    const auto numbers = narrowed(result, T{});
    std::memcpy(to, &numbers, static_cast<size_t>(width) * sizeof(T));
  }

  bool clips() const {
    if constexpr (sizeof(T) == sizeof(int32_t)) return false;
    const Words clipped = (rounded(low) < -limit) | (rounded(high) > limit);
    int32_t all = 0;
    for (int64_t i = 0; i < kWords; ++i) all |= clipped[i];
    return all != 0;
  }

  // How many results in this many written vectors are clipped.
  int64_t saturated(int64_t vectors) const {
    int64_t count = vectors * kWords;
    for (int64_t i = 0; i < kWords; ++i) count += unchanged[i];  // -1 each
    return count;
  }

 private:
  Words rounded(Words sum) const { return (sum + below_half + ((sum >> shift) & odd)) >> shift; }
};

// Results of all full vectors of channels, the weights in registers; returns the channels done.
template <typename T, Sums kSums, int kRows, int kColumns>
int64_t correlate_taps(const CorrelationRow& row, Writer<T, kSums>& writer) {
  const int64_t padded_channels = row.padded_channels, to_step = row.to_step;
  const int64_t step = row.source_step * padded_channels, results = row.results;
  Writer<T, kSums> local = writer;  // bytes written through `to` could alias the original
  int64_t first = 0;
  for (; first + kWords <= row.channels; first += kWords) {
    Words weights[kColumns * kRows];
    const Pair* lines[kRows];
    for (int i = 0; i < kColumns * kRows; ++i) {
      weights[i] = load_pairs(row.weights + i * padded_channels + first);
    }
    for (int j = 0; j < kRows; ++j) lines[j] = row.lines[j] + row.source * padded_channels + first;
    const Words bias = load_words(row.bias + first);
    auto* to = static_cast<T*>(row.to) + first;
    for (int64_t x = 0, at = 0; x < results; ++x, at += step, to += to_step) {
      Words sum = bias;
#pragma GCC unroll 8
      for (int i = 0; i < kColumns; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < kRows; ++j) {
          sum = add_products(sum, load_pairs(lines[j] + at + i * padded_channels),
                             weights[i * kRows + j]);
        }
      }
      local.write(sum, to, kWords);
    }
  }
  writer = local;
  return first;
}

// Any number of taps, `width` channels from `first`.
template <typename T, Sums kSums>
inline void correlate_any(const CorrelationRow& row, int64_t first, int64_t width,
                          Writer<T, kSums>& writer) {
  for (int64_t x = 0; x < row.results; ++x) {
    const int64_t at = (row.source + x * row.source_step) * row.padded_channels + first;
    Words sum = load_words(row.bias + first);
    const Pair* weights = row.weights + first;
    for (int64_t i = 0; i < row.columns; ++i) {
      for (int64_t j = 0; j < row.rows; ++j, weights += row.padded_channels) {
        sum = add_products(sum, load_pairs(row.lines[j] + at + i * row.padded_channels),
                           load_pairs(weights));
      }
    }
    writer.write(sum, static_cast<T*>(row.to) + x * row.to_step + first, width);
  }
}

template <typename T, Sums kSums>
int64_t correlate_any_taps(const CorrelationRow& row, Writer<T, kSums>& writer) {
  int64_t first = 0;
  for (; first + kWords <= row.channels; first += kWords) {
    correlate_any(row, first, kWords, writer);
  }
  return first;
}

template <typename T, Sums kSums>
using CorrelateTaps = int64_t (*)(const CorrelationRow&, Writer<T, kSums>&);

// In registers: kernels of up to 3 and of 5 taps, with strides 1 and 2.
template <typename T, Sums kSums>
inline CorrelateTaps<T, kSums> taps_for(const CorrelationRow& row) {
  constexpr CorrelateTaps<T, kSums> kTaps[2][3] = {
      {correlate_taps<T, kSums, 1, 1>, correlate_taps<T, kSums, 1, 2>,
       correlate_taps<T, kSums, 1, 3>},
      {correlate_taps<T, kSums, 2, 1>, correlate_taps<T, kSums, 2, 2>,
       correlate_taps<T, kSums, 2, 3>}};
  if (row.rows == 3 && row.columns == 5) return correlate_taps<T, kSums, 3, 5>;
  const bool small = row.rows >= 1 && row.rows <= 2 && row.columns >= 1 && row.columns <= 3;
  return small ? kTaps[row.rows - 1][row.columns - 1] : correlate_any_taps<T, kSums>;
}

// Returns the writer of all results, which knows the largest.
template <typename T, Sums kSums>
inline Writer<T, kSums> correlate_tile(const CorrelationRow& tile) {
  Writer<T, kSums> writer(tile);
  const int64_t done = taps_for<T, kSums>(tile)(tile, writer);
  if (done < tile.channels) correlate_any(tile, done, tile.channels - done, writer);
  return writer;
}

// All channels of a few results before the next, so that memory is written in order: writing far
// apart, channel by channel, would wait for each cache line.
constexpr int64_t kTileResults = 16;

template <typename T>
inline WideStatistics correlate_as(const CorrelationRow& row) {
  Words low = {}, high = {};
  int64_t saturated = 0;
  CorrelationRow tile = row;
  bool clips = false;  // if a tile does, the next is likely to
  const auto add_extremes = [&](const auto& writer) {
    low = writer.low < low ? writer.low : low;
    high = writer.high > high ? writer.high : high;
  };
  for (int64_t x = 0; x < row.results; x += kTileResults) {
    tile.results = std::min(kTileResults, row.results - x);
    tile.source = row.source + x * row.source_step;
    tile.to = static_cast<T*>(row.to) + x * row.to_step;
    if (!clips) {
      const auto writer = correlate_tile<T, Sums::kRounded>(tile);
      add_extremes(writer);
      clips = writer.clips();
    }
    if (!clips) continue;
    const auto writer = correlate_tile<T, Sums::kClipped>(tile);
    add_extremes(writer);
    saturated += writer.saturated(divide_up(row.channels, kWords) * tile.results);
  }
  int64_t maximum = 0;
  for (int64_t i = 0; i < kWords; ++i) {
    maximum = std::max({maximum, -int64_t{low[i]}, int64_t{high[i]}});
  }
  return {static_cast<uint64_t>(maximum), saturated};
}

inline WideStatistics correlate_uncounted(const CorrelationRow& row) noexcept {
  if (row.to_bytes == 4) return correlate_as<int32_t>(row);
  return row.to_bytes == 2 ? correlate_as<int16_t>(row) : correlate_as<int8_t>(row);
}

// Tiles whose sums count, a few, are summed once more.
inline WideStatistics correlate(const CorrelationRow& row) noexcept {
  if (row.counts == nullptr) return correlate_uncounted(row);
  WideStatistics total;
  CorrelationRow tile = row;
  for (int64_t x = 0; x < row.results; x += kTileResults) {
    tile.results = std::min(kTileResults, row.results - x);
    tile.source = row.source + x * row.source_step;
    tile.to = static_cast<std::byte*>(row.to) + x * row.to_step * row.to_bytes;
    const WideStatistics found = correlate_uncounted(tile);
    if (row.counts->wants(found)) correlate_tile<int32_t, Sums::kCounted>(tile);
    total += found;
  }
  return total;
}

// Taps [tap_row, tap_row + kRows) x [tap_column, tap_column + kColumns), their sums in registers.
template <int kRows, int kColumns>
void add_products_block(const ProductRow& p, int64_t tap_row, int64_t tap_column) {
  const int64_t padded_channels = p.padded_channels, pixels = p.pixels;
  const int64_t step = p.source_step * padded_channels;
  for (int64_t first = 0; first < padded_channels; first += kWords) {
    Words sums[kRows][kColumns] = {};
    const Pair* lines[kRows];
    for (int j = 0; j < kRows; ++j) {
      lines[j] = p.lines[tap_row + j] + (p.source + tap_column) * padded_channels + first;
    }
    const Pair* grad = p.grad + first;
    for (int64_t x = 0, at = 0; x < pixels; ++x, at += step, grad += padded_channels) {
      const Words gradient = load_pairs(grad);
#pragma GCC unroll 4
      for (int j = 0; j < kRows; ++j) {
#pragma GCC unroll 8
        for (int i = 0; i < kColumns; ++i) {
          sums[j][i] =
              add_products(sums[j][i], gradient, load_pairs(lines[j] + at + i * padded_channels));
        }
      }
    }
    for (int j = 0; j < kRows; ++j) {
      for (int i = 0; i < kColumns; ++i) {
        const int64_t tap = (tap_row + j) * p.columns + tap_column + i;
        int32_t* to = p.sums + tap * padded_channels + first;
        const Words total = load_words(to) + sums[j][i];
        std::memcpy(to, &total, sizeof(total));
      }
    }
  }
}

inline void add_product_rows(const ProductRow& p) noexcept {
  if (p.rows == 3 && p.columns == 3) return add_products_block<3, 3>(p, 0, 0);
  for (int64_t j = 0; j < p.rows; ++j) {
    int64_t i = 0;
    for (; i + 5 <= p.columns; i += 5) add_products_block<1, 5>(p, j, i);
    for (; i < p.columns; ++i) add_products_block<1, 1>(p, j, i);
  }
}

inline void drain(int32_t* sums, int64_t count, int64_t* totals) noexcept {
  int32_t* __restrict from = sums;
  int64_t* __restrict to = totals;
  for (int64_t i = 0; i < count; ++i) {
    to[i] += from[i];
    from[i] = 0;
  }
}
