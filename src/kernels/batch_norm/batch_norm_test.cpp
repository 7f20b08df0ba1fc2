// The reference and every instruction set against exact formulations.
#include "kernels/batch_norm/batch_norm.h"

#include <gtest/gtest.h>

#include "kernels/elementwise/test_values.h"

namespace mantissa::kernels {
namespace {

class BatchNorm : public testing::TestWithParam<const BatchNormKernels*> {
 protected:
  void SetUp() override {
    if (GetParam()->isa > best_isa()) {
      GTEST_SKIP() << "this CPU lacks " << isa_name(GetParam()->isa);
    }
  }
};

void expect_equal(const WideStatistics& got, const WideStatistics& wanted) {
  EXPECT_EQ(got.maximum, wanted.maximum);
  EXPECT_EQ(got.saturated, wanted.saturated);
}

TEST_P(BatchNorm, ChannelSums) {
  for (const int64_t rows : kAwkwardSizes) {
    for (const int64_t channels : kAwkwardChannels) {
      const auto in = test_values<int8_t>(rows * channels, 1, 7);
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
      GetParam()->channel_sums(in.data(), channels, begin, rows,
                               {sum.data(), squares.data(), low.data(), high.data()});
      ASSERT_EQ(sum, wanted_sum);
      ASSERT_EQ(squares, wanted_squares);
      ASSERT_EQ(low, wanted_low);
      ASSERT_EQ(high, wanted_high);
    }
  }
}

template <typename T>
void check_gradient_sums_of_extremes(const BatchNormKernels& kernels, int64_t rows,
                                     int64_t channels) {
  constexpr T kLow = std::numeric_limits<T>::min();
  const std::vector<int8_t> in(rows * channels, -128);
  const std::vector<T> grad(rows * channels, kLow);
  std::vector<int64_t> sum_grad(channels, 0), sum_grad_in(channels, 0);
  BatchNormGradient args;
  args.grad_out = {grad.data(), 8 * int{sizeof(T)}};
  args.in = in.data();
  args.channels = channels;
  kernels.gradient_sums(args, 0, rows, sum_grad.data(), sum_grad_in.data());
  ASSERT_EQ(sum_grad, std::vector<int64_t>(channels, rows * kLow));
  ASSERT_EQ(sum_grad_in, std::vector<int64_t>(channels, rows * kLow * -128));
}

// Depth at which 32-bit partial sums of extremes would wrap.
TEST_P(BatchNorm, SumsOfManyExtremesAreExact) {
  constexpr int64_t kRows = 140001;
  for (const int64_t channels : {3, 16, 32}) {
    const std::vector<int8_t> in(kRows * channels, -128);
    std::vector<int64_t> sum(channels, 0), squares(channels, 0);
    std::vector<int32_t> low(channels, 127), high(channels, -128);
    GetParam()->channel_sums(in.data(), channels, 0, kRows,
                             {sum.data(), squares.data(), low.data(), high.data()});
    ASSERT_EQ(sum, std::vector<int64_t>(channels, kRows * -128));
    ASSERT_EQ(squares, std::vector<int64_t>(channels, kRows * 16384));
    check_gradient_sums_of_extremes<int16_t>(*GetParam(), kRows, channels);
    check_gradient_sums_of_extremes<int8_t>(*GetParam(), kRows, channels);
  }
}

void check_scale_offset(const BatchNormKernels& kernels, int64_t rows, int64_t channels, int shift,
                        bool relu, int offset_bits) {
  const auto in = test_values<int8_t>(rows * channels, 2, 7);
  const auto multiplier = test_values<int32_t>(channels, 3, 31);
  const auto offset = test_values<int64_t>(channels, 4, offset_bits);
  std::vector<int8_t> out(rows * channels), wanted(rows * channels);
  WideStatistics maximum, narrowed;
  for (int64_t i = 0; i < rows * channels; ++i) {
    Wide wide = Wide{in[i]} * multiplier[i % channels] + offset[i % channels];
    if (relu) wide = std::max<Wide>(wide, 0);
    maximum.maximum = std::max(maximum.maximum, exact_magnitude(wide));
    const Wide rounded = exact_rne(wide, shift);
    wanted[i] = static_cast<int8_t>(exact_saturate(rounded, 127));
    narrowed.saturated += wanted[i] != rounded;
  }
  ScaleOffset args = {in.data(), channels, multiplier.data(), offset.data(), relu, shift, nullptr};
  expect_equal(kernels.scale_offset(args, 0, rows), maximum);
  args.out = out.data();
  expect_equal(kernels.scale_offset(args, 0, rows), narrowed);
  ASSERT_EQ(out, wanted) << rows << " x " << channels << " >> " << shift;
}

TEST_P(BatchNorm, ScaleOffset) {
  for (const int64_t rows : kAwkwardSizes) {
    for (const int64_t channels : kAwkwardChannels) {
      for (const int shift : {-20, -1, 0, 1, 24, 31, 38, 45, 46, 47, 63, 90}) {
        check_scale_offset(*GetParam(), rows, channels, shift, false, 45);
        check_scale_offset(*GetParam(), rows, channels, shift, true, shift > 30 ? 45 : 35);
      }
    }
  }
}

// Gradients of `bits` bits, which T keeps.
template <typename T>
struct GradientCase {
  int64_t rows, channels;
  int bits;
  std::vector<T> grad_out;
  std::vector<int8_t> in, output;
  std::vector<int32_t> grad_multiplier, in_multiplier;
  std::vector<int64_t> offset;

  GradientCase(int64_t rows_, int64_t channels_, int bits_, int offset_bits)
      : rows(rows_),
        channels(channels_),
        bits(bits_),
        grad_out(test_values<T>(rows * channels, 5, bits - 1)),
        in(test_values<int8_t>(rows * channels, 6, 7)),
        output(test_values<int8_t>(rows * channels, 7, 7)),
        grad_multiplier(test_values<int32_t>(channels, 8, 31)),
        in_multiplier(test_values<int32_t>(channels, 9, 31)),
        offset(test_values<int64_t>(channels, 10, offset_bits)) {}

  BatchNormGradient args(bool masked, int shift, Gradient grad_in) const {
    return {{grad_out.data(), bits},
            in.data(),
            masked ? output.data() : nullptr,
            channels,
            grad_multiplier.data(),
            in_multiplier.data(),
            offset.data(),
            shift,
            grad_in};
  }
};

template <typename T>
void check_gradient_sums(const BatchNormKernels& kernels, const GradientCase<T>& data,
                         bool masked) {
  const int64_t channels = data.channels;
  std::vector<int64_t> sum(channels, 1), product(channels, 2);
  auto wanted_sum = sum, wanted_product = product;
  for (int64_t i = 0; i < data.rows * channels; ++i) {
    const int64_t grad = !masked || data.output[i] > 0 ? data.grad_out[i] : 0;
    wanted_sum[i % channels] += grad;
    wanted_product[i % channels] += grad * data.in[i];
  }
  kernels.gradient_sums(data.args(masked, 0, {}), 0, data.rows, sum.data(), product.data());
  ASSERT_EQ(sum, wanted_sum);
  ASSERT_EQ(product, wanted_product);
}

// Calls check with a GradientCase of every shape and width.
template <typename Check>
void for_each_gradient_case(int offset_bits, Check&& check) {
  for (const int64_t rows : kAwkwardSizes) {
    for (const int64_t channels : kAwkwardChannels) {
      for (const int bits : kTestedGradientBits) {
        with_gradient_type(bits, [&](auto type) {
          check(GradientCase<decltype(type)>(rows, channels, bits, offset_bits));
        });
      }
    }
  }
}

TEST_P(BatchNorm, GradientSums) {
  for_each_gradient_case(40, [&](const auto& data) {
    for (const bool masked : {false, true}) check_gradient_sums(*GetParam(), data, masked);
  });
}

// Out keeps the `bits` of the result.
template <typename Out, typename T>
void check_gradient(const BatchNormKernels& kernels, const GradientCase<T>& data, int bits,
                    bool masked, int shift) {
  const int64_t count = data.rows * data.channels;
  std::vector<Out> out(count), wanted(count);
  WideStatistics maximum, narrowed;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t c = i % data.channels;
    const Wide grad = !masked || data.output[i] > 0 ? data.grad_out[i] : 0;
    const Wide wide =
        grad * data.grad_multiplier[c] + Wide{data.in[i]} * data.in_multiplier[c] + data.offset[c];
    maximum.maximum = std::max(maximum.maximum, exact_magnitude(wide));
    const Wide rounded = exact_rne(wide, shift);
    wanted[i] = static_cast<Out>(exact_saturate(rounded, (1 << (bits - 1)) - 1));
    narrowed.saturated += wanted[i] != rounded;
  }
  expect_equal(kernels.gradient(data.args(masked, shift, {}), 0, data.rows), maximum);
  narrowed.maximum = maximum.maximum;
  expect_equal(kernels.gradient(data.args(masked, shift, {out.data(), bits}), 0, data.rows),
               narrowed);
  ASSERT_EQ(out, wanted) << data.rows << " x " << data.channels << " >> " << shift << " to " << bits
                         << " bits";
}

TEST_P(BatchNorm, Gradient) {
  for (const int offset_bits : {40, 60}) {
    for_each_gradient_case(offset_bits, [&]<typename T>(const GradientCase<T>& data) {
      for (const int shift : {0, 1, 16, 31, 32, 46, 54, 60, 61, 62, 63, 90}) {
        for (const bool masked : {false, true}) {
          check_gradient<T>(*GetParam(), data, data.bits, masked, shift);
          check_gradient<int16_t>(*GetParam(), data, 16, masked, shift);
        }
      }
    });
  }
}

std::string row_name(const testing::TestParamInfo<const BatchNormKernels*>& info) {
  return std::string(isa_name(info.param->isa));
}

#if defined(__x86_64__)
INSTANTIATE_TEST_SUITE_P(Rows, BatchNorm,
                         testing::Values(&kBatchNormReference, &kBatchNormAvx2,
                                         &kBatchNormAvx512Vnni),
                         row_name);
#else
INSTANTIATE_TEST_SUITE_P(Rows, BatchNorm, testing::Values(&kBatchNormReference), row_name);
#endif

}  // namespace
}  // namespace mantissa::kernels
