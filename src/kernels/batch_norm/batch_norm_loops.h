// The batch-norm loops, written once and compiled per instruction set (see elementwise_loops.h).
//
// Include inside an anonymous namespace of mantissa::kernels, after batch_norm.h and rounding.h.

#include "kernels/common/round_even_loops.h"

// Channels are processed in strips of this many, whose sums stay in registers.
constexpr int64_t kStrip = 16;

template <typename T, bool kFull>
inline void channel_sums_strip(const T* in, int64_t channels, int64_t first, int64_t width,
                               int64_t begin_row, int64_t end_row,
                               const ChannelSums& sums) noexcept {
  const int64_t lanes = kFull ? kStrip : width;
  // So many sums of 16 bits, or squares of 8, fit int32.
  constexpr int64_t kRows = 65535;
  using Square = std::conditional_t<sizeof(T) == 1, int32_t, int64_t>;
  for (int64_t block = begin_row; block < end_row; block += kRows) {
    const int64_t stop = std::min<int64_t>(end_row, block + kRows);
    int32_t sum[kStrip] = {};
    Square squares[kStrip] = {};
    int32_t low[kStrip], high[kStrip];
    for (int64_t c = 0; c < kStrip; ++c) {
      low[c] = std::numeric_limits<T>::max(), high[c] = std::numeric_limits<T>::min();
    }
    for (int64_t row = block; row < stop; ++row) {
      const T* __restrict from = in + row * channels + first;
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

template <typename T>
inline void channel_sums_of(const T* in, int64_t channels, int64_t first, int64_t begin_row,
                            int64_t end_row, const ChannelSums& sums) noexcept {
  const int64_t width = std::min(kStrip, channels - first);
  if (width == kStrip) {
    channel_sums_strip<T, true>(in, channels, first, width, begin_row, end_row, sums);
  } else {
    channel_sums_strip<T, false>(in, channels, first, width, begin_row, end_row, sums);
  }
}

inline void channel_sums(ConstMantissaSpan in, int64_t channels, int64_t begin_row, int64_t end_row,
                         const ChannelSums& sums) noexcept {
  with_value_type(in.bits, [&](auto type) {
    const auto* values = in.as<decltype(type)>();
    for (int64_t first = 0; first < channels; first += kStrip) {
      channel_sums_of(values, channels, first, begin_row, end_row, sums);
    }
  });
}

// in * multiplier + offset is monotone in `in`, so the extremes of a channel decide its maximum.
template <typename T>
inline WideStatistics scale_offset_maximum(const ScaleOffset& args, int64_t begin_row,
                                           int64_t end_row) noexcept {
  if (begin_row == end_row) return {};
  const bool drops = args.relu || args.negative_shift >= 0;  // negative values
  uint64_t maximum = 0;
  for (int64_t first = 0; first < args.channels; first += kStrip) {
    const int64_t width = std::min(kStrip, args.channels - first);
    int64_t sum[kStrip] = {}, squares[kStrip] = {};
    int32_t low[kStrip], high[kStrip];
    for (int64_t c = 0; c < kStrip; ++c) low[c] = INT32_MAX, high[c] = INT32_MIN;
    const ChannelSums sums = {sum, squares, low, high};
    const T* in = args.in.as<T>() + first;
    if (width == kStrip) {
      channel_sums_strip<T, true>(in, args.channels, 0, width, begin_row, end_row, sums);
    } else {
      channel_sums_strip<T, false>(in, args.channels, 0, width, begin_row, end_row, sums);
    }
    for (int64_t c = 0; c < width; ++c) {
      for (const int64_t extreme : {low[c], high[c]}) {
        const int64_t affine = extreme * args.multiplier[first + c] + args.offset[first + c];
        maximum = std::max(maximum, drops && affine < 0 ? 0 : magnitude(affine));
      }
    }
  }
  return {maximum, 0};
}

template <typename T, typename Out, bool kCoarse>
inline WideStatistics scale_offset_rows(const ScaleOffset& args, int64_t begin_row,
                                        int64_t end_row) noexcept {
  const int64_t floor = args.relu ? 0 : INT64_MIN;
  const int up = args.shift < 0 ? std::min(-args.shift, 15) : 0;
  const RoundEven64 round(args.shift);
  const int64_t channels = args.channels, limit = mantissa_limit(args.out.bits);
  const int coarse = kCoarse ? args.negative_shift : 0;
  const int64_t coarse_half = (int64_t{1} << coarse) / 2;
  const int32_t* __restrict multiplier = args.multiplier;
  const int64_t* __restrict offset = args.offset;
  int64_t saturated = 0;
  for (int64_t row = begin_row; row < end_row; ++row) {
    const T* __restrict in = args.in.as<T>() + row * channels;
    Out* __restrict out = args.out.as<Out>() + row * channels;
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t affine = int64_t{in[c]} * multiplier[c] + offset[c];
      const int64_t wide = (affine < floor ? floor : affine) * (int64_t{1} << up);
      const int64_t rounded = round(wide);
      if constexpr (kCoarse) {
        const int64_t below = std::min<int64_t>(rounded, 0), above = rounded - below;
        saturated += above > limit;
        out[c] = static_cast<Out>(std::min(above, limit) +
                                  std::max((below + coarse_half) >> coarse, -limit));
      } else {
        const int64_t narrow = saturate(rounded, limit);
        saturated += narrow != rounded;
        out[c] = static_cast<Out>(narrow);
      }
    }
  }
  return {0, saturated};
}

inline WideStatistics scale_offset(const ScaleOffset& args, int64_t begin_row,
                                   int64_t end_row) noexcept {
  return with_value_type(args.in.bits, [&](auto from) {
    using T = decltype(from);
    if (args.out.data == nullptr) return scale_offset_maximum<T>(args, begin_row, end_row);
    return with_value_type(args.out.bits, [&](auto to) {
      using Out = decltype(to);
      return args.negative_shift >= 0 ? scale_offset_rows<T, Out, true>(args, begin_row, end_row)
                                      : scale_offset_rows<T, Out, false>(args, begin_row, end_row);
    });
  });
}

// In place of the type of an output that is not there: all gradients pass.
struct NoMask {};

// Calls function(T{}, In{}, Output{}) with the types of gradient, input and output; NoMask stands
// for an output that is not there.
template <typename Function>
inline decltype(auto) with_gradient_operands(const BatchNormGradient& args, Function&& function) {
  return with_wide_gradient_type(args.grad_out.bits, [&](auto grad) {
    return with_value_type(args.in.bits, [&](auto in) {
      if (args.output.data == nullptr) return function(grad, in, NoMask{});
      return with_value_type(args.output.bits,
                             [&](auto output) { return function(grad, in, output); });
    });
  });
}

template <typename T, typename In, typename Output, bool kFull>
inline void gradient_sums_strip(const BatchNormGradient& args, int64_t first, int64_t width,
                                int64_t begin_row, int64_t end_row, int64_t* sum_grad,
                                int64_t* sum_grad_in) noexcept {
  constexpr bool kMasked = !std::is_same_v<Output, NoMask>;
  using Sum = std::conditional_t<sizeof(T) <= 2, int32_t, int64_t>;
  using Product = std::conditional_t<sizeof(T) <= 2 && sizeof(In) == 1, int32_t, int64_t>;
  const int64_t lanes = kFull ? kStrip : width;
  // 256 products of 16 and 8 bits fit int32.
  for (int64_t block = begin_row; block < end_row; block += 256) {
    const int64_t stop = std::min<int64_t>(end_row, block + 256);
    Sum grads[kStrip] = {};
    Product products[kStrip] = {};
    for (int64_t row = block; row < stop; ++row) {
      const int64_t at = row * args.channels + first;
      const T* __restrict grad_out = args.grad_out.as<T>() + at;
      const In* __restrict in = args.in.as<In>() + at;
      const Output* __restrict output = kMasked ? args.output.as<Output>() + at : nullptr;
      // g++ 12 would unroll the strip before it looks for vectors, and then find none.
#pragma GCC unroll 1
      for (int64_t c = 0; c < lanes; ++c) {
        // All ones if the output is positive: a condition would not be vectorised here.
        T mask = -1;
        if constexpr (kMasked) mask = static_cast<T>(-T{output[c] > 0});
        const Sum grad = grad_out[c] & mask;
        grads[c] += grad;
        products[c] += Product{grad} * in[c];
      }
    }
    for (int64_t c = 0; c < lanes; ++c) {
      sum_grad[first + c] += grads[c];
      sum_grad_in[first + c] += products[c];
    }
  }
}

inline void gradient_sums(const BatchNormGradient& args, int64_t begin_row, int64_t end_row,
                          int64_t* sum_grad, int64_t* sum_grad_in) noexcept {
  with_gradient_operands(args, [&]<typename T, typename In, typename Output>(T, In, Output) {
    for (int64_t first = 0; first < args.channels; first += kStrip) {
      const int64_t width = std::min(kStrip, args.channels - first);
      if (width == kStrip) {
        gradient_sums_strip<T, In, Output, true>(args, first, width, begin_row, end_row, sum_grad,
                                                 sum_grad_in);
      } else {
        gradient_sums_strip<T, In, Output, false>(args, first, width, begin_row, end_row, sum_grad,
                                                  sum_grad_in);
      }
    }
  });
}

// An input whose negative values have a unit of their own, in the unit of the rest.
inline int64_t in_one_unit(int64_t in, int negative_shift) {
  return in < 0 ? in * (int64_t{1} << negative_shift) : in;
}

template <typename T, typename In, typename Output, typename Out, bool kWrite>
inline WideStatistics gradient_rows(const BatchNormGradient& args, int64_t begin_row,
                                    int64_t end_row) noexcept {
  constexpr bool kMasked = !std::is_same_v<Output, NoMask>;
  const RoundEven64 round(args.shift);
  const int64_t limit = mantissa_limit(args.grad_in.bits);
  const int64_t channels = args.channels;
  const int negative_shift = args.negative_shift;
  [[maybe_unused]] const int64_t in_unit = int64_t{1} << args.in_shift;
  const int32_t* __restrict grad_multiplier = args.grad_multiplier;
  const int32_t* __restrict in_multiplier = args.in_multiplier;
  const int64_t* __restrict offset = args.offset;
  int64_t low = 0, high = 0, saturated = 0;
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int64_t at = row * channels;
    const T* __restrict grad_out = args.grad_out.as<T>() + at;
    const In* __restrict in = args.in.as<In>() + at;
    const Output* __restrict output = kMasked ? args.output.as<Output>() + at : nullptr;
    Out* __restrict grad_in = kWrite ? args.grad_in.as<Out>() + at : nullptr;
    for (int64_t c = 0; c < channels; ++c) {
      int64_t grad = grad_out[c];
      int64_t value = in[c];
      if constexpr (kMasked) {
        grad = output[c] > 0 ? grad : 0;
        value = in_one_unit(value, negative_shift);
      }
      int64_t of_input = value * in_multiplier[c];
      if constexpr (sizeof(T) > 2) of_input *= in_unit;
      const int64_t wide = grad * grad_multiplier[c] + of_input + offset[c];
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
  return with_gradient_operands(args, [&]<typename T, typename In, typename Output>(T, In, Output) {
    return with_gradient_type_from<T>(args.grad_in.bits, [&](auto to) {
      using Out = decltype(to);
      return args.grad_in.data == nullptr
                 ? gradient_rows<T, In, Output, Out, false>(args, begin_row, end_row)
                 : gradient_rows<T, In, Output, Out, true>(args, begin_row, end_row);
    });
  });
}
