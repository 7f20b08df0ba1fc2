// The batch-norm loops, written once and compiled per instruction set (see elementwise_loops.h).
//
// Include inside an anonymous namespace of mantissa::kernels, after batch_norm.h and rounding.h.

#include "kernels/round_even_loops.h"

// Channels are processed in strips of this many, whose sums stay in registers.
constexpr int64_t kStrip = 16;

template <bool kFull>
inline void channel_sums_strip(const int8_t* in, int64_t channels, int64_t first, int64_t width,
                               int64_t begin_row, int64_t end_row,
                               const ChannelSums& sums) noexcept {
  const int64_t lanes = kFull ? kStrip : width;
  // 65,536 squares of 8 bits fit int32.
  for (int64_t block = begin_row; block < end_row; block += 65536) {
    const int64_t stop = std::min<int64_t>(end_row, block + 65536);
    int32_t sum[kStrip] = {}, squares[kStrip] = {};
    int32_t low[kStrip], high[kStrip];
    for (int64_t c = 0; c < kStrip; ++c) low[c] = 127, high[c] = -128;
    for (int64_t row = block; row < stop; ++row) {
      const int8_t* __restrict from = in + row * channels + first;
      for (int64_t c = 0; c < lanes; ++c) {
        const int32_t value = from[c];
        sum[c] += value;
        squares[c] += value * value;
        low[c] = value < low[c] ? value : low[c];
        high[c] = value > high[c] ? value : high[c];
      }
    }
    for (int64_t c = 0; c < lanes; ++c) {
      sums.sum[first + c] += sum[c];
      sums.sum_squares[first + c] += squares[c];
      sums.minimum[first + c] = std::min(sums.minimum[first + c], low[c]);
      sums.maximum[first + c] = std::max(sums.maximum[first + c], high[c]);
    }
  }
}

inline void channel_sums(const int8_t* in, int64_t channels, int64_t begin_row, int64_t end_row,
                         const ChannelSums& sums) noexcept {
  for (int64_t first = 0; first < channels; first += kStrip) {
    const int64_t width = std::min(kStrip, channels - first);
    if (width == kStrip) {
      channel_sums_strip<true>(in, channels, first, width, begin_row, end_row, sums);
    } else {
      channel_sums_strip<false>(in, channels, first, width, begin_row, end_row, sums);
    }
  }
}

// in * multiplier + offset is monotone in `in`, so the extremes of a channel decide its maximum.
inline WideStatistics scale_offset_maximum(const ScaleOffset& args, int64_t begin_row,
                                           int64_t end_row) noexcept {
  if (begin_row == end_row) return {};
  uint64_t maximum = 0;
  for (int64_t first = 0; first < args.channels; first += kStrip) {
    const int64_t width = std::min(kStrip, args.channels - first);
    int64_t sum[kStrip] = {}, squares[kStrip] = {};
    int32_t low[kStrip], high[kStrip];
    for (int64_t c = 0; c < kStrip; ++c) low[c] = 127, high[c] = -128;
    const ChannelSums sums = {sum, squares, low, high};
    if (width == kStrip) {
      channel_sums_strip<true>(args.in + first, args.channels, 0, width, begin_row, end_row, sums);
    } else {
      channel_sums_strip<false>(args.in + first, args.channels, 0, width, begin_row, end_row, sums);
    }
    for (int64_t c = 0; c < width; ++c) {
      for (const int64_t extreme : {low[c], high[c]}) {
        const int64_t affine = extreme * args.multiplier[first + c] + args.offset[first + c];
        maximum = std::max(maximum, args.relu && affine < 0 ? 0 : magnitude(affine));
      }
    }
  }
  return {maximum, 0};
}

inline WideStatistics scale_offset(const ScaleOffset& args, int64_t begin_row,
                                   int64_t end_row) noexcept {
  if (args.out == nullptr) return scale_offset_maximum(args, begin_row, end_row);
  const int64_t floor = args.relu ? 0 : INT64_MIN;
  const int up = args.shift < 0 ? std::min(-args.shift, 15) : 0;
  const RoundEven64 round(args.shift);
  const int64_t channels = args.channels, limit = mantissa_limit(args.bits);
  const int32_t* __restrict multiplier = args.multiplier;
  const int64_t* __restrict offset = args.offset;
  int64_t saturated = 0;
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int8_t* __restrict in = args.in + row * channels;
    int8_t* __restrict out = args.out + row * channels;
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t affine = int64_t{in[c]} * multiplier[c] + offset[c];
      const int64_t wide = (affine < floor ? floor : affine) * (int64_t{1} << up);
      const int64_t rounded = round(wide);
      const int64_t narrow = saturate(rounded, limit);
      saturated += narrow != rounded;
      out[c] = static_cast<int8_t>(narrow);
    }
  }
  return {0, saturated};
}

template <typename T, bool kFull, bool kMasked>
inline void gradient_sums_strip(const BatchNormGradient& args, int64_t first, int64_t width,
                                int64_t begin_row, int64_t end_row, int64_t* sum_grad,
                                int64_t* sum_grad_in) noexcept {
  const int64_t lanes = kFull ? kStrip : width;
  // 256 products of 16 and 8 bits fit int32.
  for (int64_t block = begin_row; block < end_row; block += 256) {
    const int64_t stop = std::min<int64_t>(end_row, block + 256);
    int32_t grads[kStrip] = {}, products[kStrip] = {};
    for (int64_t row = block; row < stop; ++row) {
      const int64_t at = row * args.channels + first;
      const T* __restrict grad_out = args.grad_out.as<T>() + at;
      const int8_t* __restrict in = args.in + at;
      const int8_t* __restrict output = kMasked ? args.output + at : nullptr;
      // g++ 12 would unroll the strip before it looks for vectors, and then find none.
#pragma GCC unroll 1
      for (int64_t c = 0; c < lanes; ++c) {
        // All ones where the output is positive: a condition would not be vectorised here.
        const T mask = kMasked ? static_cast<T>(-T{output[c] > 0}) : T{-1};
        const int32_t grad = grad_out[c] & mask;
        grads[c] += grad;
        products[c] += grad * in[c];
      }
    }
    for (int64_t c = 0; c < lanes; ++c) {
      sum_grad[first + c] += grads[c];
      sum_grad_in[first + c] += products[c];
    }
  }
}

template <typename T>
inline void gradient_sums_rows(const BatchNormGradient& args, int64_t begin_row, int64_t end_row,
                               int64_t* sum_grad, int64_t* sum_grad_in) noexcept {
  for (int64_t first = 0; first < args.channels; first += kStrip) {
    const int64_t width = std::min(kStrip, args.channels - first);
    const auto strip = [&]<bool kFull, bool kMasked>() {
      gradient_sums_strip<T, kFull, kMasked>(args, first, width, begin_row, end_row, sum_grad,
                                             sum_grad_in);
    };
    if (width == kStrip && args.output != nullptr) strip.template operator()<true, true>();
    if (width == kStrip && args.output == nullptr) strip.template operator()<true, false>();
    if (width != kStrip && args.output != nullptr) strip.template operator()<false, true>();
    if (width != kStrip && args.output == nullptr) strip.template operator()<false, false>();
  }
}

inline void gradient_sums(const BatchNormGradient& args, int64_t begin_row, int64_t end_row,
                          int64_t* sum_grad, int64_t* sum_grad_in) noexcept {
  with_gradient_type(args.grad_out.bits, [&](auto type) {
    gradient_sums_rows<decltype(type)>(args, begin_row, end_row, sum_grad, sum_grad_in);
  });
}

template <typename T, typename Out, bool kMasked, bool kWrite>
inline WideStatistics gradient_rows(const BatchNormGradient& args, int64_t begin_row,
                                    int64_t end_row) noexcept {
  const RoundEven64 round(args.shift);
  const int64_t limit = mantissa_limit(args.grad_in.bits);
  const int64_t channels = args.channels;
  const int32_t* __restrict grad_multiplier = args.grad_multiplier;
  const int32_t* __restrict in_multiplier = args.in_multiplier;
  const int64_t* __restrict offset = args.offset;
  int64_t low = 0, high = 0, saturated = 0;
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int64_t at = row * channels;
    const T* __restrict grad_out = args.grad_out.as<T>() + at;
    const int8_t* __restrict in = args.in + at;
    const int8_t* __restrict output = kMasked ? args.output + at : nullptr;
    Out* __restrict grad_in = kWrite ? args.grad_in.as<Out>() + at : nullptr;
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t raw = grad_out[c];
      const int64_t grad = !kMasked || output[c] > 0 ? raw : 0;
      const int64_t wide =
          grad * grad_multiplier[c] + int64_t{in[c]} * in_multiplier[c] + offset[c];
      low = wide < low ? wide : low;
      high = wide > high ? wide : high;
      if constexpr (kWrite) {
        const int64_t rounded = round(wide);
        const int64_t narrow = saturate(rounded, limit);
        saturated += narrow != rounded;
        grad_in[c] = static_cast<Out>(narrow);
      }
    }
  }
  return {std::max(magnitude(low), magnitude(high)), saturated};
}

inline WideStatistics gradient(const BatchNormGradient& args, int64_t begin_row,
                               int64_t end_row) noexcept {
  return with_gradient_type(args.grad_out.bits, [&](auto from) {
    return with_wide_gradient_type(args.grad_in.bits, [&](auto to) {
      using T = decltype(from);
      using Out = decltype(to);
      if (args.grad_in.data == nullptr) {
        return args.output != nullptr
                   ? gradient_rows<T, Out, true, false>(args, begin_row, end_row)
                   : gradient_rows<T, Out, false, false>(args, begin_row, end_row);
      }
      return args.output != nullptr ? gradient_rows<T, Out, true, true>(args, begin_row, end_row)
                                    : gradient_rows<T, Out, false, true>(args, begin_row, end_row);
    });
  });
}
