// Sums, scale and offset: the reference and every instruction set against exact formulations.
#include "kernels/batch_norm/batch_norm.h"

#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <vector>

#include "kernels/batch_norm/batch_norm_test_rows.h"
#include "kernels/elementwise/test_values.h"

namespace mantissa::kernels {
namespace {

class BatchNorm : public BatchNormRow {};

template <typename T>
void check_channel_sums(const BatchNormKernels& kernels, int64_t rows, int64_t channels) {
  const auto in = test_values<T>(rows * channels, 1, kBitsOf<T> - 1);
  std::vector<int64_t> sum(channels, 5), squares(channels, 6);
  std::vector<int32_t> low(channels, 9), high(channels, -9);
  auto wanted_sum = sum, wanted_squares = squares;
  auto wanted_low = low, wanted_high = high;
  const int64_t begin = rows > 2 ? 1 : 0;
  for (int64_t i = begin * channels; i < rows * channels; ++i) {
    const int64_t c = i % channels;
    wanted_sum[c] += in[i];
    wanted_squares[c] += int64_t{in[i]} * in[i];
    wanted_low[c] = std::min<int32_t>(wanted_low[c], in[i]);
    wanted_high[c] = std::max<int32_t>(wanted_high[c], in[i]);
  }
  kernels.channel_sums({in.data(), kBitsOf<T>}, channels, begin, rows,
                       {sum.data(), squares.data(), low.data(), high.data()});
  ASSERT_EQ(sum, wanted_sum);
  ASSERT_EQ(squares, wanted_squares);
  ASSERT_EQ(low, wanted_low);
  ASSERT_EQ(high, wanted_high);
}

TEST_P(BatchNorm, ChannelSums) {
  for (const int64_t rows : kAwkwardSizes) {
    using Counts = std::span<const int64_t>;
    for (const Counts counts : {Counts(kAwkwardChannels), Counts(kOtherChannels)}) {
      for (const int64_t channels : counts) {
        check_channel_sums<int8_t>(*GetParam(), rows, channels);
        check_channel_sums<int16_t>(*GetParam(), rows, channels);
      }
    }
  }
}

template <typename T, typename In>
void check_gradient_sums_of_extremes(const BatchNormKernels& kernels, int64_t rows,
                                     int64_t channels) {
  constexpr T kLow = std::numeric_limits<T>::min();
  constexpr In kLowIn = std::numeric_limits<In>::min();
  const std::vector<In> in(rows * channels, kLowIn);
  const std::vector<T> grad(rows * channels, kLow);
  std::vector<int64_t> sum_grad(channels, 0), sum_grad_in(channels, 0);
  BatchNormGradient args;
  args.grad_out = {grad.data(), kBitsOf<T>};
  args.in = {in.data(), kBitsOf<In>};
  args.channels = channels;
  kernels.gradient_sums(args, 0, rows, sum_grad.data(), sum_grad_in.data());
  ASSERT_EQ(sum_grad, std::vector<int64_t>(channels, rows * kLow));
  ASSERT_EQ(sum_grad_in, std::vector<int64_t>(channels, rows * kLow * kLowIn));
}

template <typename T>
void check_sums_of_extremes(const BatchNormKernels& kernels, int64_t rows, int64_t channels) {
  constexpr int64_t kLow = std::numeric_limits<T>::min();
  const std::vector<T> in(rows * channels, static_cast<T>(kLow));
  std::vector<int64_t> sum(channels, 0), squares(channels, 0);
  std::vector<int32_t> low(channels, 0), high(channels, INT32_MIN);
  kernels.channel_sums({in.data(), kBitsOf<T>}, channels, 0, rows,
                       {sum.data(), squares.data(), low.data(), high.data()});
  ASSERT_EQ(sum, std::vector<int64_t>(channels, rows * kLow));
  ASSERT_EQ(squares, std::vector<int64_t>(channels, rows * kLow * kLow));
  ASSERT_EQ(low, std::vector<int32_t>(channels, kLow));
  ASSERT_EQ(high, low);
}

// More long rows than strips add up at a time, and an odd rest.
TEST_P(BatchNorm, ChannelSumsThatStartAnew) {
  for (const int64_t channels : {16, 64}) check_channel_sums<int8_t>(*GetParam(), 40004, channels);
}

// So many rows that 32-bit partial sums of extremes would wrap.
TEST_P(BatchNorm, SumsOfManyExtremesAreExact) {
  constexpr int64_t kRows = 140001;
  for (const int64_t channels : {3, 16, 32}) {
    check_sums_of_extremes<int8_t>(*GetParam(), kRows, channels);
    check_sums_of_extremes<int16_t>(*GetParam(), kRows, channels);
    check_gradient_sums_of_extremes<int16_t, int8_t>(*GetParam(), kRows, channels);
    check_gradient_sums_of_extremes<int8_t, int8_t>(*GetParam(), kRows, channels);
    check_gradient_sums_of_extremes<int16_t, int16_t>(*GetParam(), kRows, channels);
  }
}

template <typename In>
struct ScaleOffsetCase {
  int64_t rows, channels;
  std::vector<In> in;
  std::vector<int32_t> multiplier;
  std::vector<int64_t> offset;

  ScaleOffsetCase(int64_t rows_, int64_t channels_, int multiplier_bits, int offset_bits)
      : rows(rows_),
        channels(channels_),
        in(test_values<In>(rows * channels, 2, kBitsOf<In> - 1)),
        multiplier(test_values<int32_t>(channels, 3, multiplier_bits)),
        offset(test_values<int64_t>(channels, 4, offset_bits)) {}
};

template <typename Out = int8_t, typename In>
void check_scale_offset(const BatchNormKernels& kernels, const ScaleOffsetCase<In>& data, int shift,
                        bool relu) {
  const int64_t count = data.rows * data.channels;
  const int bits = kBitsOf<Out> - (shift % 3 == 0 ? 4 : 0);
  std::vector<Out> out(count), wanted(count);
  WideStatistics maximum, narrowed;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t c = i % data.channels;
    Wide wide = Wide{data.in[i]} * data.multiplier[c] + data.offset[c];
    if (relu) wide = std::max<Wide>(wide, 0);
    maximum.maximum = std::max(maximum.maximum, exact_magnitude(wide));
    const Wide rounded = exact_rne(wide, shift);
    wanted[i] = static_cast<Out>(exact_saturate(rounded, (1 << (bits - 1)) - 1));
    narrowed.saturated += wanted[i] != rounded;
  }
  ScaleOffset args = {{data.in.data(), kBitsOf<In>},
                      data.channels,
                      data.multiplier.data(),
                      data.offset.data(),
                      relu,
                      shift,
                      {nullptr, bits}};
  expect_equal(kernels.scale_offset(args, 0, data.rows), maximum);
  args.out.data = out.data();
  expect_equal(kernels.scale_offset(args, 0, data.rows), narrowed);
  ASSERT_EQ(out, wanted) << data.rows << " x " << data.channels << " >> " << shift;
}

TEST_P(BatchNorm, ScaleOffset) {
  for (const int64_t rows : kAwkwardSizes) {
    for (const int64_t channels : kAwkwardChannels) {
      for (const int bits : {30, 31}) {
        const ScaleOffsetCase<int8_t> wide(rows, channels, bits, 45),
            narrow(rows, channels, bits, 35);
        const ScaleOffsetCase<int16_t> of_words(rows, channels, bits - 2, 45);
        for (const int shift : {-20, -1, 0, 1, 16, 17, 24, 31, 38, 45, 46, 47, 48, 63, 90}) {
          check_scale_offset(*GetParam(), wide, shift, false);
          check_scale_offset(*GetParam(), shift > 30 ? wide : narrow, shift, true);
          for (const bool relu : {false, true}) {
            check_scale_offset<int16_t>(*GetParam(), wide, shift, relu);
            check_scale_offset<int8_t>(*GetParam(), of_words, shift, relu);
            check_scale_offset<int16_t>(*GetParam(), of_words, shift, relu);
          }
        }
      }
    }
  }
}

TEST_P(BatchNorm, ScaleOffsetOfOtherChannelCounts) {
  for (const int64_t channels : kOtherChannels) {
    const ScaleOffsetCase<int8_t> data(70, channels, 30, 38);
    for (const bool relu : {false, true}) check_scale_offset(*GetParam(), data, 31, relu);
  }
}

TEST_P(BatchNorm, ScaleOffsetOfLargeMultipliers) {
  for (const int32_t multiplier : kLargeMultipliers) {
    ScaleOffsetCase<int8_t> data(70, 16, 30, 45);
    data.multiplier[3] = multiplier;
    data.multiplier[4] = -multiplier;
    for (const int shift : {31, 47}) check_scale_offset(*GetParam(), data, shift, false);
  }
}

// All values of 8 bits. First one in each channel is half way between two results; then in one
// channel several are, or all.
TEST_P(BatchNorm, ScaleOffsetOfTies) {
  constexpr int64_t kChannels = 80;
  ScaleOffsetCase<int8_t> data(256, kChannels, 22, 10);
  for (int64_t i = 0; i < 256 * kChannels; ++i) {
    data.in[i] = static_cast<int8_t>(i / kChannels - 128);
  }
  const std::vector<int32_t> random = data.multiplier;
  for (const int shift : {17, 18, 24, 31, 32, 40}) {
    const int64_t half = int64_t{1} << (shift - 1);
    for (int64_t c = 0; c < kChannels; ++c) {
      data.multiplier[c] = (random[c] / 16 | 1) * (1 << c % 5);
      data.offset[c] = (c % 7 - 3) * 2 * half + half - (c * 37 % 256 - 128) * data.multiplier[c];
    }
    for (const bool relu : {false, true}) check_scale_offset(*GetParam(), data, shift, relu);
    data.offset[9] = half;
    for (const int64_t multiplier : {half, half / 64, half / 128, int64_t{0}}) {
      data.multiplier[9] = static_cast<int32_t>(std::min<int64_t>(multiplier, 1 << 30));
      for (const bool relu : {false, true}) check_scale_offset(*GetParam(), data, shift, relu);
    }
  }
}

// Negative results are rounded twice, the second time half up, and clipped without being counted.
template <typename Out = int8_t, typename In>
void check_coarse_negatives(const BatchNormKernels& kernels, const ScaleOffsetCase<In>& data,
                            int bits, int shift, int negative_shift) {
  const int64_t count = data.rows * data.channels;
  const Wide limit = (1 << (bits - 1)) - 1;
  std::vector<Out> out(count), wanted(count);
  WideStatistics maximum, narrowed;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t c = i % data.channels;
    const Wide wide = Wide{data.in[i]} * data.multiplier[c] + data.offset[c];
    if (wide > 0) maximum.maximum = std::max(maximum.maximum, exact_magnitude(wide));
    const Wide rounded = exact_rne(wide, shift), unit = Wide{1} << negative_shift;
    Wide narrow = std::min(rounded, limit);
    if (rounded < 0) {
      Wide coarse = (2 * rounded + unit) / (2 * unit);  // towards zero
      if (coarse * 2 * unit > 2 * rounded + unit) --coarse;
      narrow = std::max(coarse, -limit);
    }
    narrowed.saturated += rounded > limit;
    wanted[i] = static_cast<Out>(narrow);
  }
  ScaleOffset args = {.in = {data.in.data(), kBitsOf<In>},
                      .channels = data.channels,
                      .multiplier = data.multiplier.data(),
                      .offset = data.offset.data(),
                      .shift = shift,
                      .out = {nullptr, bits},
                      .negative_shift = negative_shift};
  expect_equal(kernels.scale_offset(args, 0, data.rows), maximum);
  args.out.data = out.data();
  expect_equal(kernels.scale_offset(args, 0, data.rows), narrowed);
  ASSERT_EQ(out, wanted) << data.rows << " x " << data.channels << " >> " << shift << ", "
                         << negative_shift;
}

TEST_P(BatchNorm, ScaleOffsetWithCoarseNegatives) {
  for (const int negative_shift : {0, 1, 3, kMostNegativeShift}) {
    for (const int64_t rows : kAwkwardSizes) {
      for (const int64_t channels : kAwkwardChannels) {
        const ScaleOffsetCase<int8_t> data(rows, channels, 30, 38);
        const ScaleOffsetCase<int16_t> of_words(rows, channels, 28, 42);
        for (const int shift : {0, 16, 22, 24, 31, 38, 47, 63}) {
          check_coarse_negatives(*GetParam(), data, 8, shift, negative_shift);
          check_coarse_negatives(*GetParam(), data, 6, shift, negative_shift);
          check_coarse_negatives<int16_t>(*GetParam(), data, 12, shift, negative_shift);
          check_coarse_negatives<int16_t>(*GetParam(), of_words, 9, shift, negative_shift);
        }
      }
    }
    for (const int64_t channels : kOtherChannels) {
      const ScaleOffsetCase<int8_t> data(70, channels, 30, 38);
      check_coarse_negatives(*GetParam(), data, 8, 31, negative_shift);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, BatchNorm, MANTISSA_BATCH_NORM_ROWS, row_name);

}  // namespace
}  // namespace mantissa::kernels
