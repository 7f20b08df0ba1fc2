// The element-wise loops, written once: reference.cpp compiles them plainly, the files of the
// instruction sets compile the same source for wider vectors. Integers only, so the bits are equal.
//
// Include inside an anonymous namespace of mantissa::kernels, after elementwise.h and rounding.h.

#include "kernels/common/round_even_loops.h"

inline WideStatistics requantise(const Requantise& args, int64_t begin, int64_t end) noexcept {
  const int32_t* __restrict wide = args.wide;
  int8_t* __restrict out = args.out;
  if (out == nullptr) {
    int32_t low = 0, high = 0;
    for (int64_t i = begin; i < end; ++i) {
      low = wide[i] < low ? wide[i] : low;
      high = wide[i] > high ? wide[i] : high;
    }
    return {std::max(magnitude(low), magnitude(high)), 0};
  }
  int64_t saturated = 0;
  const auto limit = static_cast<int32_t>(mantissa_limit(args.bits));
  if (args.shift < 0 || args.shift > 30) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t rounded = rescale_rne(wide[i], args.shift);
      const int64_t narrow = saturate(rounded, limit);
      out[i] = static_cast<int8_t>(narrow);
      saturated += narrow != rounded;
    }
    return {0, saturated};
  }
  // rne in 32 bits: the half never overflows because it is added after one bit is shifted out.
  const int shift = args.shift;
  const int32_t half = shift == 0 ? 0 : (int32_t{1} << (shift - 1)) - 1;
  const int32_t odd_mask = shift == 0 ? 0 : 1;
  for (int64_t block = begin; block < end; block += 1 << 20) {
    const int64_t stop = std::min(end, block + (1 << 20));
    int32_t clipped = 0;
    for (int64_t i = block; i < stop; ++i) {
      const int32_t remainder = wide[i] & (half * 2 + odd_mask);
      const int32_t floor = wide[i] >> shift;
      const int32_t rounded = floor + ((remainder + half + (floor & odd_mask)) >> shift);
      const int32_t low = rounded < -limit ? -limit : rounded;
      const int32_t narrow = low > limit ? limit : low;
      clipped += narrow != rounded;
      out[i] = static_cast<int8_t>(narrow);
    }
    saturated += clipped;
  }
  return {0, saturated};
}

// Channel parameters are repeated to rows of at least this many elements, so that narrow images
// still fill vectors.
constexpr int64_t kPattern = 1024;

inline WideStatistics normalise_elements(const NormaliseInput& args, int64_t begin_row,
                                         int64_t end_row) noexcept {
  WideStatistics statistics;
  const int64_t limit = mantissa_limit(args.bits);
  for (int64_t row = begin_row; row < end_row; ++row) {
    for (int64_t c = 0; c < args.channels; ++c) {
      const int64_t i = row * args.channels + c;
      const int64_t wide = int64_t{args.pixels[i]} - args.mean[c];
      statistics.maximum = std::max(statistics.maximum, magnitude(wide));
      if (args.out == nullptr) continue;
      const int64_t rounded = rescale_rne(wide, args.shift);
      const int64_t narrow = saturate(rounded, limit);
      args.out[i] = static_cast<int8_t>(narrow);
      statistics.saturated += narrow != rounded;
    }
  }
  return statistics;
}

// Means of at most 2^24, right shifts, few channels: the case of pixels in practice.
inline WideStatistics normalise_pattern(const NormaliseInput& args, int64_t begin_row,
                                        int64_t end_row) noexcept {
  int32_t means[kPattern];
  const int64_t width = kPattern / args.channels * args.channels;
  for (int64_t i = 0; i < width; ++i) means[i] = args.mean[i % args.channels];
  const RoundEven32 round(std::min(args.shift, 30));
  const auto limit = static_cast<int32_t>(mantissa_limit(args.bits));
  const int64_t end = end_row * args.channels;
  int32_t low = 0, high = 0;
  int64_t saturated = 0;
  for (int64_t first = begin_row * args.channels; first < end; first += width) {
    const int64_t count = std::min(width, end - first);
    const uint8_t* __restrict pixels = args.pixels + first;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t wide = pixels[i] - means[i];
      low = wide < low ? wide : low;
      high = wide > high ? wide : high;
    }
    if (args.out == nullptr) continue;
    int8_t* __restrict out = args.out + first;
    int32_t clipped = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t rounded = round(pixels[i] - means[i]);
      const int32_t narrow = rounded < -limit ? -limit : rounded > limit ? limit : rounded;
      clipped += narrow != rounded;
      out[i] = static_cast<int8_t>(narrow);
    }
    saturated += clipped;
  }
  return {std::max(magnitude(low), magnitude(high)), saturated};
}

inline WideStatistics normalise_input(const NormaliseInput& args, int64_t begin_row,
                                      int64_t end_row) noexcept {
  bool simple = args.channels <= 16 && args.shift >= 0;
  for (int64_t c = 0; simple && c < args.channels; ++c) {
    simple = magnitude(args.mean[c]) <= uint64_t{1} << 24;
  }
  return simple ? normalise_pattern(args, begin_row, end_row)
                : normalise_elements(args, begin_row, end_row);
}

#include "kernels/elementwise/add_loops.h"
#include "kernels/elementwise/table_loops.h"

inline void relu(const int8_t* in, int8_t* out, int64_t begin, int64_t end) noexcept {
  const int8_t* __restrict from = in;
  int8_t* __restrict to = out;
  for (int64_t i = begin; i < end; ++i) to[i] = from[i] > 0 ? from[i] : int8_t{0};
}

template <typename T>
inline void relu_gradient_of(const int8_t* output, const T* grad_out, T* grad_in, int64_t begin,
                             int64_t end) noexcept {
  const int8_t* __restrict out = output;
  const T* __restrict from = grad_out;
  T* __restrict to = grad_in;
  // A mask: the load of a condition's branch would not be vectorised.
  for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(from[i] & -T{out[i] > 0});
}

inline void relu_gradient(const int8_t* output, ConstMantissaSpan grad_out, MantissaSpan grad_in,
                          int64_t begin, int64_t end) noexcept {
  with_wide_gradient_type(grad_out.bits, [&](auto type) {
    using T = decltype(type);
    relu_gradient_of(output, grad_out.as<T>(), grad_in.as<T>(), begin, end);
  });
}

// Channels are processed in strips of this many, whose sums stay in registers.
constexpr int64_t kStrip = 16;

// `width` is kStrip as a constant, or the rest.
template <typename T, typename Width, typename Map>
inline void sum_rows_strip(const T* in, int64_t channels, Width width, int64_t begin_row,
                           int64_t end_row, int64_t* sums, Map map) noexcept {
  // 256 mantissas of 8 bits fit int16, 65,536 of 16 bits int32, 2^32 of 32 bits int64.
  using Sum = std::conditional_t<sizeof(T) == 1, int16_t,
                                 std::conditional_t<sizeof(T) == 2, int32_t, int64_t>>;
  constexpr int64_t kBlock = int64_t{1} << (8 * sizeof(T));
  for (int64_t block = begin_row; block < end_row; block += kBlock) {
    const int64_t stop = std::min(end_row, block + kBlock);
    Sum sum[kStrip] = {};
    for (int64_t row = block; row < stop; ++row) {
      const T* __restrict from = in + row * channels;
      for (int64_t c = 0; c < width; ++c) sum[c] = static_cast<Sum>(sum[c] + map(from[c]));
    }
    for (int64_t c = 0; c < width; ++c) sums[c] += sum[c];
  }
}

template <typename T, typename Map>
inline void sum_rows_of(const T* in, int64_t channels, int64_t begin_row, int64_t end_row,
                        int64_t* sums, Map map) noexcept {
  for (int64_t first = 0; first < channels; first += kStrip) {
    if (channels - first >= kStrip) {
      sum_rows_strip(in + first, channels, std::integral_constant<int64_t, kStrip>(), begin_row,
                     end_row, sums + first, map);
    } else {
      sum_rows_strip(in + first, channels, channels - first, begin_row, end_row, sums + first, map);
    }
  }
}

inline void sum_rows(ConstMantissaSpan in, int64_t channels, int64_t begin_row, int64_t end_row,
                     int64_t* sums) noexcept {
  with_wide_gradient_type(in.bits, [&](auto type) {
    sum_rows_of(in.as<decltype(type)>(), channels, begin_row, end_row, sums,
                [](auto mantissa) { return mantissa; });
  });
}

inline void sum_magnitudes(ConstMantissaSpan in, int64_t channels, int64_t begin_row,
                           int64_t end_row, int64_t* sums) noexcept {
  with_wide_gradient_type(in.bits, [&](auto type) {
    sum_rows_of(in.as<decltype(type)>(), channels, begin_row, end_row, sums,
                [](auto mantissa) { return mantissa < 0 ? -mantissa : mantissa; });
  });
}

inline void channel_maxima(const int32_t* wide, int64_t channels, int64_t begin_row,
                           int64_t end_row, uint32_t* maxima) noexcept {
  uint32_t* __restrict to = maxima;
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int32_t* __restrict from = wide + row * channels;
    for (int64_t c = 0; c < channels; ++c) {
      const auto bits = static_cast<uint32_t>(from[c]);
      const uint32_t size = from[c] < 0 ? 0 - bits : bits;
      to[c] = size > to[c] ? size : to[c];
    }
  }
}

template <typename Width>
inline int64_t requantise_strip(const RequantiseChannels& args, int64_t first, Width width,
                                int64_t begin_row, int64_t end_row) noexcept {
  const int64_t channels = args.channels;
  const int32_t* shifts = args.shifts + first;
  const auto limit = static_cast<int32_t>(mantissa_limit(args.bits));
  uint32_t shift[kStrip], mask[kStrip], below_half[kStrip], odd[kStrip];
  for (int64_t c = 0; c < width; ++c) {
    shift[c] = static_cast<uint32_t>(shifts[c]);
    mask[c] = (uint32_t{1} << shift[c]) - 1;
    below_half[c] = mask[c] >> 1;
    odd[c] = shift[c] == 0 ? 0 : 1;
  }
  int64_t saturated = 0;
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int32_t* __restrict from = args.wide + row * channels + first;
    int8_t* __restrict to = args.out + row * channels + first;
    int32_t clipped = 0;
    for (int64_t c = 0; c < width; ++c) {
      const int32_t floor = from[c] >> shift[c];
      const uint32_t rest = (static_cast<uint32_t>(from[c]) & mask[c]) + below_half[c] +
                            (static_cast<uint32_t>(floor) & odd[c]);
      const int32_t rounded = floor + static_cast<int32_t>(rest >> shift[c]);
      const int32_t above = rounded < -limit ? -limit : rounded;
      const int32_t narrow = above > limit ? limit : above;
      clipped += narrow != rounded;
      to[c] = static_cast<int8_t>(narrow);
    }
    saturated += clipped;
  }
  return saturated;
}

inline int64_t requantise_channels(const RequantiseChannels& args, int64_t begin_row,
                                   int64_t end_row) noexcept {
  int64_t saturated = 0;
  for (int64_t first = 0; first < args.channels; first += kStrip) {
    const int64_t left = args.channels - first;
    if (left >= kStrip) {
      saturated += requantise_strip(args, first, std::integral_constant<int64_t, kStrip>(),
                                    begin_row, end_row);
    } else {
      saturated += requantise_strip(args, first, left, begin_row, end_row);
    }
  }
  return saturated;
}
