// The loops of row_loops.h, written once and compiled per instruction set.
//
// Include inside an anonymous namespace of mantissa::kernels::depthwise, after a definition of
// kLanes, Lanes (a vector of kLanes int32), multiply_add(Lanes pairs, Lanes pairs) and, for int8
// and int16, narrowed(Lanes, T{}): a vector that begins with the lanes as T, which hold them.

inline Lanes narrowed(Lanes lanes, int32_t) { return lanes; }

inline Lanes load(const void* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

template <typename T>
inline void pair_numbers(const T* __restrict first, const T* __restrict second, int64_t count,
                         Pair* __restrict to) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = static_cast<uint16_t>(first[i]) | static_cast<uint32_t>(second[i]) << 16;
  }
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

// Writes sums as T (int32_t: as they are) and keeps the statistics, lane by lane.
template <typename T>
struct Writer {
  Lanes low = {}, high = {}, unchanged = {};
  Lanes below_half, odd, limit;
  int shift;

  explicit Writer(const CorrelationRow& row)
      : below_half(Lanes{} + (row.shift == 0 ? 0 : (int32_t{1} << (row.shift - 1)) - 1)),
        odd(Lanes{} + (row.shift == 0 ? 0 : 1)),
        limit(Lanes{} + row.limit),
        shift(row.shift) {}

  template <typename Width>
  void write(Lanes sum, T* to, Width width) {
    low = sum < low ? sum : low;
    high = sum > high ? sum : high;
    Lanes result = sum;
    if constexpr (sizeof(T) != sizeof(int32_t)) {
      const Lanes rounded = (sum + below_half + ((sum >> shift) & odd)) >> shift;
      result = rounded > limit ? limit : rounded;
      result = result < -limit ? -limit : result;
      unchanged += result == rounded;
    }
    const auto numbers = narrowed(result, T{});
    std::memcpy(to, &numbers, static_cast<size_t>(width) * sizeof(T));
  }

  WideStatistics statistics(int64_t vectors) const {
    WideStatistics found;
    if constexpr (sizeof(T) != sizeof(int32_t)) found.saturated = vectors * kLanes;
    for (int64_t i = 0; i < kLanes; ++i) {
      const int64_t maximum = std::max(-static_cast<int64_t>(low[i]), int64_t{high[i]});
      found.maximum = std::max(found.maximum, static_cast<uint64_t>(maximum));
      found.saturated += unchanged[i];  // -1 each
    }
    return found;
  }
};

// Results of all full vectors of channels, the weights in registers; returns the channels done.
template <typename T, int kRows, int kColumns>
int64_t correlate_taps(const CorrelationRow& row, Writer<T>& writer) {
  const int64_t padded_channels = row.padded_channels, to_step = row.to_step;
  const int64_t step = row.source_step * padded_channels, results = row.results;
  Writer<T> local = writer;  // bytes written through `to` could alias the original
  int64_t first = 0;
  for (; first + kLanes <= row.channels; first += kLanes) {
    Lanes weights[kColumns * kRows];
    const Pair* lines[kRows];
    for (int i = 0; i < kColumns * kRows; ++i) {
      weights[i] = load(row.weights + i * padded_channels + first);
    }
    for (int j = 0; j < kRows; ++j) lines[j] = row.lines[j] + row.source * padded_channels + first;
    const Lanes bias = load(row.bias + first);
    auto* to = static_cast<T*>(row.to) + first;
    for (int64_t x = 0, at = 0; x < results; ++x, at += step, to += to_step) {
      Lanes sum = bias;
#pragma GCC unroll 8
      for (int i = 0; i < kColumns; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < kRows; ++j) {
          sum += multiply_add(load(lines[j] + at + i * padded_channels), weights[i * kRows + j]);
        }
      }
      local.write(sum, to, std::integral_constant<int64_t, kLanes>());
    }
  }
  writer = local;
  return first;
}

// Any number of taps, `width` channels from `first`.
template <typename T, typename Width>
void correlate_any(const CorrelationRow& row, int64_t first, Width width, Writer<T>& writer) {
  for (int64_t x = 0; x < row.results; ++x) {
    const int64_t at = (row.source + x * row.source_step) * row.padded_channels + first;
    Lanes sum = load(row.bias + first);
    const Pair* weights = row.weights + first;
    for (int64_t i = 0; i < row.columns; ++i) {
      for (int64_t j = 0; j < row.rows; ++j, weights += row.padded_channels) {
        sum += multiply_add(load(row.lines[j] + at + i * row.padded_channels), load(weights));
      }
    }
    writer.write(sum, static_cast<T*>(row.to) + x * row.to_step + first, width);
  }
}

template <typename T>
int64_t correlate_any_taps(const CorrelationRow& row, Writer<T>& writer) {
  int64_t first = 0;
  for (; first + kLanes <= row.channels; first += kLanes) {
    correlate_any(row, first, std::integral_constant<int64_t, kLanes>(), writer);
  }
  return first;
}

template <typename T>
using CorrelateTaps = int64_t (*)(const CorrelationRow&, Writer<T>&);

// In registers: what kernels of up to 3 and of 5 taps come to, with strides 1 and 2.
template <typename T>
inline CorrelateTaps<T> taps_for(const CorrelationRow& row) {
  constexpr CorrelateTaps<T> kTaps[2][3] = {
      {correlate_taps<T, 1, 1>, correlate_taps<T, 1, 2>, correlate_taps<T, 1, 3>},
      {correlate_taps<T, 2, 1>, correlate_taps<T, 2, 2>, correlate_taps<T, 2, 3>}};
  if (row.rows == 3 && row.columns == 5) return correlate_taps<T, 3, 5>;
  const bool small = row.rows >= 1 && row.rows <= 2 && row.columns >= 1 && row.columns <= 3;
  return small ? kTaps[row.rows - 1][row.columns - 1] : correlate_any_taps<T>;
}

// All channels of a few results before the next, so that memory is written in order: writing far
// apart, channel by channel, would wait for each cache line.
constexpr int64_t kTileResults = 16;

template <typename T>
inline WideStatistics correlate_as(const CorrelationRow& row) {
  Writer<T> writer(row);
  const CorrelateTaps<T> taps = taps_for<T>(row);
  CorrelationRow tile = row;
  for (int64_t x = 0; x < row.results; x += kTileResults) {
    tile.results = std::min(kTileResults, row.results - x);
    tile.source = row.source + x * row.source_step;
    tile.to = static_cast<T*>(row.to) + x * row.to_step;
    const int64_t done = taps(tile, writer);
    if (done < row.channels) correlate_any(tile, done, row.channels - done, writer);
  }
  return writer.statistics(divide_up(row.channels, kLanes) * row.results);
}

inline WideStatistics correlate(const CorrelationRow& row) noexcept {
  if (row.to_bytes == 4) return correlate_as<int32_t>(row);
  return row.to_bytes == 2 ? correlate_as<int16_t>(row) : correlate_as<int8_t>(row);
}

// Taps [tap_row, tap_row + kRows) x [tap_column, tap_column + kColumns), their sums in registers.
template <int kRows, int kColumns>
void add_products_block(const ProductRow& p, int64_t tap_row, int64_t tap_column) {
  const int64_t padded_channels = p.padded_channels, pixels = p.pixels;
  const int64_t step = p.source_step * padded_channels;
  for (int64_t first = 0; first < padded_channels; first += kLanes) {
    Lanes sums[kRows][kColumns] = {};
    const Pair* lines[kRows];
    for (int j = 0; j < kRows; ++j) {
      lines[j] = p.lines[tap_row + j] + (p.source + tap_column) * padded_channels + first;
    }
    const Pair* grad = p.grad + first;
    for (int64_t x = 0, at = 0; x < pixels; ++x, at += step, grad += padded_channels) {
      const Lanes gradient = load(grad);
#pragma GCC unroll 4
      for (int j = 0; j < kRows; ++j) {
#pragma GCC unroll 8
        for (int i = 0; i < kColumns; ++i) {
          sums[j][i] += multiply_add(gradient, load(lines[j] + at + i * padded_channels));
        }
      }
    }
    for (int j = 0; j < kRows; ++j) {
      for (int i = 0; i < kColumns; ++i) {
        const int64_t tap = (tap_row + j) * p.columns + tap_column + i;
        int32_t* to = p.sums + tap * padded_channels + first;
        const Lanes total = load(to) + sums[j][i];
        std::memcpy(to, &total, sizeof(total));
      }
    }
  }
}

inline void add_products(const ProductRow& p) noexcept {
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
