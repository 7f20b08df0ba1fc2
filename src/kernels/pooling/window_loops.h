// Pooling by windows that may overlap and reach beyond the image: maximum and average, and their
// gradients, in which several outputs send something to one input. Channels in chunks, whose
// maxima or sums stay in the first-level cache or in registers.
//
// Include inside an anonymous namespace of mantissa::kernels, after pooling.h and rounding.h.

#include "kernels/common/round_even_loops.h"

constexpr int64_t kChunk = 64;

// Calls visit(first, width) for the chunks of `channels`; `width` is kChunk as a constant, or what
// is left.
template <typename Visit>
inline void for_each_chunk(int64_t channels, Visit&& visit) noexcept {
  int64_t first = 0;
  for (; first + kChunk <= channels; first += kChunk) {
    visit(first, std::integral_constant<int64_t, kChunk>());
  }
  if (first < channels) visit(first, channels - first);
}

// Calls visit(y, x, out) for each window of the images: its row and column among the windows, and
// the offset of its output.
template <typename Visit>
inline void for_each_window(const PoolShape& s, Visit&& visit) noexcept {
  int64_t out = 0;
  for (int64_t y = 0; y < s.out_height; ++y) {
    for (int64_t x = 0; x < s.out_width; ++x, out += s.channels) visit(y, x, out);
  }
}

// Best of a window so far, and its tap, from the cell that is the tap `here`.
template <typename T, typename Width>
inline void take_larger(const T* cell, int8_t here, Width width, T* __restrict best,
                        int8_t* __restrict taps) noexcept {
  const T* __restrict from = cell;
  for (int64_t c = 0; c < width; ++c) {
    taps[c] = from[c] > best[c] ? here : taps[c];
    best[c] = from[c] > best[c] ? from[c] : best[c];
  }
}

template <typename T>
inline void max_pool_windows_of(const PoolShape& s, const T* in, T* out, int8_t* taps,
                                int64_t begin, int64_t end) noexcept {
  for (int64_t n = begin; n < end; ++n) {
    const T* image = in + n * s.in_image();
    for_each_window(s, [&](int64_t wy, int64_t wx, int64_t at) {
      const PoolRange rows = s.rows(wy), columns = s.columns(wx);
      for_each_chunk(s.channels, [&](int64_t first, auto width) {
        const auto cell = [&](int64_t y, int64_t x) {
          return image + (y * s.in_width + x) * s.channels + first;
        };
        T best[kChunk];
        int8_t chosen[kChunk];
        std::copy_n(cell(rows.begin, columns.begin), width, best);
        std::fill_n(chosen, width, s.tap(wy, wx, rows.begin, columns.begin));
        for (int64_t y = rows.begin; y < rows.end; ++y) {
          for (int64_t x = columns.begin; x < columns.end; ++x) {
            take_larger(cell(y, x), s.tap(wy, wx, y, x), width, best, chosen);
          }
        }
        const int64_t to = n * s.out_image() + at + first;
        if (out != nullptr) std::copy_n(best, width, out + to);
        if (taps != nullptr) std::copy_n(chosen, width, taps + to);
      });
    });
  }
}

inline void max_pool_windows(const PoolShape& s, ConstMantissaSpan in, MantissaSpan out,
                             int8_t* taps, int64_t begin, int64_t end) noexcept {
  with_value_type(in.bits, [&](auto type) {
    using T = decltype(type);
    max_pool_windows_of(s, in.as<T>(), out.as<T>(), taps, begin, end);
  });
}

// Narrows a chunk of exact sums and notes their statistics.
template <typename To, typename Sum, typename Round, typename Width>
inline WideStatistics narrow_sums(const Sum* __restrict sums, const Round& round, int bits,
                                  Width width, To* __restrict to, WideCounts* counts) noexcept {
  const auto limit = static_cast<Sum>(mantissa_limit(bits));
  Sum low = 0, high = 0, clipped = 0;
  for (int64_t c = 0; c < width; ++c) {
    low = sums[c] < low ? sums[c] : low;
    high = sums[c] > high ? sums[c] : high;
    const Sum rounded = round(sums[c]);
    const Sum above = rounded < -limit ? -limit : rounded;
    const Sum narrow = above > limit ? limit : above;
    clipped += narrow != rounded;
    to[c] = static_cast<To>(narrow);
  }
  const WideStatistics found{std::max(magnitude(low), magnitude(high)), clipped};
  if (counts != nullptr && counts->wants(found)) counts->add(sums, width);
  return found;
}

// For each input cell, narrow(the sum of all additions by `add(sums, wy, wx, out, y, x, width)`,
// one for each window over the cell), in type Sum, which `round` shifts.
template <typename Sum, typename To, typename Round, typename Add>
inline WideStatistics gather(const PoolShape& s, const Round& round, MantissaSpan grad_in,
                             int64_t begin, int64_t end, WideCounts* counts,
                             const Add& add) noexcept {
  WideStatistics found;
  To* to = grad_in.as<To>() + begin * s.in_image();
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t y = 0; y < s.in_height; ++y) {
      const PoolRange rows = s.vertical.windows_over(y, s.out_height);
      for (int64_t x = 0; x < s.in_width; ++x, to += s.channels) {
        const PoolRange columns = s.horizontal.windows_over(x, s.out_width);
        for_each_chunk(s.channels, [&](int64_t first, auto width) {
          Sum sums[kChunk] = {};
          for (int64_t wy = rows.begin; wy < rows.end; ++wy) {
            for (int64_t wx = columns.begin; wx < columns.end; ++wx) {
              const int64_t window = wy * s.out_width + wx;
              const int64_t out = n * s.out_image() + window * s.channels + first;
              add(sums, window, out, s.tap(wy, wx, y, x), width);
            }
          }
          found += narrow_sums(sums, round, grad_in.bits, width, to + first, counts);
        });
      }
    }
  }
  return found;
}

template <typename From, typename Sum, typename Width>
inline void add_where(const From* __restrict from, const int8_t* __restrict taps, int8_t here,
                      Width width, Sum* __restrict sums) noexcept {
  for (int64_t c = 0; c < width; ++c) sums[c] += from[c] & -static_cast<Sum>(taps[c] == here);
}

// A cell lies in at most 11 * 11 windows: sums fit 23 bits, or 39 for gradients of 32. From this
// shift on nothing is left.
inline WideStatistics max_pool_windows_gradient(const PoolShape& s, const int8_t* taps,
                                                ConstMantissaSpan grad_out, int shift,
                                                MantissaSpan grad_in, int64_t begin, int64_t end,
                                                WideCounts* counts) noexcept {
  return with_wide_gradient_type(grad_out.bits, [&](auto from) {
    using From = decltype(from);
    constexpr bool kIsWide = sizeof(From) > 2;
    using Sum = std::conditional_t<kIsWide, int64_t, int32_t>;
    using Round = std::conditional_t<kIsWide, RoundEven64, RoundEven32>;
    const Round round(std::min(shift, kIsWide ? 62 : 30));
    return with_gradient_type_from<From>(grad_in.bits, [&](auto to) {
      return gather<Sum, decltype(to)>(
          s, round, grad_in, begin, end, counts,
          [&](Sum* sums, int64_t, int64_t out, int8_t here, auto width) {
            add_where(grad_out.as<From>() + out, taps + out, here, width, sums);
          });
    });
  });
}

template <typename Width>
inline void window_sums(const PoolShape& s, const int8_t* image, int64_t wy, int64_t wx,
                        Width width, int32_t* __restrict sums) noexcept {
  const PoolRange rows = s.rows(wy), columns = s.columns(wx);
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    for (int64_t x = columns.begin; x < columns.end; ++x) {
      const int8_t* __restrict from = image + (y * s.in_width + x) * s.channels;
      for (int64_t c = 0; c < width; ++c) sums[c] += from[c];
    }
  }
}

// Left shifts, which only a fixed exponent asks for.
struct ShiftLeft64 {
  int shift;
  int64_t operator()(int64_t n) const { return rescale_rne(n, shift); }
};

template <typename Round>
inline WideStatistics average_pool_by(const AveragePool& p, const Round& round, int64_t begin,
                                      int64_t end) noexcept {
  const PoolShape& s = p.shape;
  WideStatistics found;
  for (int64_t n = begin; n < end; ++n) {
    for_each_window(s, [&](int64_t wy, int64_t wx, int64_t at) {
      const int64_t multiplier = p.multipliers[wy * s.out_width + wx];
      for_each_chunk(s.channels, [&](int64_t first, auto width) {
        int32_t sums[kChunk] = {};
        window_sums(s, p.in + n * s.in_image() + first, wy, wx, width, sums);
        int64_t wide[kChunk];
        for (int64_t c = 0; c < width; ++c) wide[c] = sums[c] * multiplier;
        int8_t narrow[kChunk];
        found += narrow_sums(wide, round, p.bits, width, narrow, p.counts);
        if (p.out != nullptr) std::copy_n(narrow, width, p.out + n * s.out_image() + at + first);
      });
    });
  }
  return found;
}

inline WideStatistics average_pool(const AveragePool& p, int64_t begin, int64_t end) noexcept {
  return p.shift < 0 ? average_pool_by(p, ShiftLeft64{p.shift}, begin, end)
                     : average_pool_by(p, RoundEven64(p.shift), begin, end);
}

template <typename From, typename Width>
inline void add_products(const From* __restrict from, int64_t multiplier, Width width,
                         int64_t* __restrict sums) noexcept {
  for (int64_t c = 0; c < width; ++c) sums[c] += from[c] * multiplier;
}

inline WideStatistics average_pool_gradient(const PoolShape& s, const int64_t* multipliers,
                                            ConstMantissaSpan grad_out, int shift,
                                            MantissaSpan grad_in, int64_t begin, int64_t end,
                                            WideCounts* counts) noexcept {
  const RoundEven64 round(shift);
  return with_wide_gradient_type(grad_out.bits, [&](auto from) {
    using From = decltype(from);
    return with_gradient_type_from<From>(grad_in.bits, [&](auto to) {
      return gather<int64_t, decltype(to)>(
          s, round, grad_in, begin, end, counts,
          [&](int64_t* sums, int64_t window, int64_t out, int8_t, auto width) {
            add_products(grad_out.as<From>() + out, multipliers[window], width, sums);
          });
    });
  });
}
