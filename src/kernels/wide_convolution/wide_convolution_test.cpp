// Convolutions of up to 16 bits, with or without planes, against plain sums in 128 bits.
#include "kernels/wide_convolution/wide_convolution.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "kernels/convolution/test_products.h"
#include "kernels/elementwise/test_values.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

using test::for_each_product;
using test::with_every_kernel;

// Mantissas of `bits` bits, extremes among them, as the type that keeps them.
struct Mantissas {
  Mantissas(int64_t count, int width, uint64_t seed) : bits(width) {
    const int64_t limit = mantissa_limit(bits);
    for (const auto value : test_values<int16_t>(count, seed, bits - 1)) {
      wide.push_back(static_cast<int16_t>(saturate(value, limit)));
      narrow.push_back(static_cast<int8_t>(wide.back()));
    }
  }
  void fill(int value) {
    std::fill(wide.begin(), wide.end(), static_cast<int16_t>(value));
    std::fill(narrow.begin(), narrow.end(), static_cast<int8_t>(value));
  }
  MantissaSpan view() {
    return {bits <= 8 ? static_cast<void*>(narrow.data()) : static_cast<void*>(wide.data()), bits};
  }

  int bits;
  std::vector<int16_t> wide;
  std::vector<int8_t> narrow;
};

struct Operands {
  Operands(const ConvolutionShape& s, int in, int by, int grad, uint64_t seed)
      : shape(s),
        input(s.input_count(), in, seed),
        weights(s.weights_count(), by, seed + 1),
        grads(s.output_count(), grad, seed + 2),
        bias(test_values<int64_t>(s.out_channels, seed + 3, 40)) {}

  ConvolutionShape shape;
  Mantissas input, weights, grads;
  std::vector<int64_t> bias;
};

void check_forward(Operands& o) {
  std::vector<Wide> wanted;
  for (int64_t i = 0; i < o.shape.output_count(); ++i) {
    wanted.push_back(o.bias[i % o.shape.out_channels]);
  }
  for_each_product(o.shape, [&](int64_t out, int64_t in, int64_t w) {
    wanted[out] += Wide{o.input.wide[in]} * o.weights.wide[w];
  });
  with_every_kernel(
      [&](const KernelTable& table, int threads) {
        return wide_forward_scratch_bytes(table, o.shape, o.input.bits, o.weights.bits, threads);
      },
      [&](const KernelTable& table, const KernelContext& context) {
        std::vector<int64_t> sums(wanted.size(), 77);
        wide_forward(choose_wide_forward(table, o.shape, o.input.bits, o.weights.bits), table,
                     {o.shape, o.input.view(), o.weights.view(), o.bias.data(), sums.data()},
                     context);
        for (size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(Wide{sums[i]}, wanted[i]) << i;
      });
}

void check_grad_weights(Operands& o, int shift) {
  std::vector<Wide> wanted(static_cast<size_t>(o.shape.weights_count()));
  for_each_product(o.shape, [&](int64_t out, int64_t in, int64_t w) {
    wanted[w] += Wide{o.input.wide[in]} * o.grads.wide[out];
  });
  with_every_kernel(
      [&](const KernelTable& table, int threads) {
        return wide_grad_weights_scratch_bytes(table, o.shape, o.input.bits, o.grads.bits, threads);
      },
      [&](const KernelTable& table, const KernelContext& context) {
        for (const bool adds : {false, true}) {
          std::vector<int64_t> sums(wanted.size(), 5);
          wide_grad_weights(
              choose_wide_grad_weights(table, o.shape, o.input.bits, o.grads.bits), table,
              {o.shape, o.input.view(), o.grads.view(), shift, sums.data(), adds}, context);
          for (size_t i = 0; i < sums.size(); ++i) {
            ASSERT_EQ(Wide{sums[i]}, (adds ? 5 : 0) + exact_rne(wanted[i], shift)) << i;
          }
        }
      });
}

void check_grad_input(Operands& o, int shift, int bits) {
  std::vector<Wide> wanted(static_cast<size_t>(o.shape.input_count()));
  for_each_product(o.shape, [&](int64_t out, int64_t in, int64_t w) {
    wanted[in] += Wide{o.weights.wide[w]} * o.grads.wide[out];
  });
  with_every_kernel(
      [&](const KernelTable& table, int threads) {
        return wide_grad_input_scratch_bytes(table, o.shape, o.grads.bits, o.weights.bits, threads);
      },
      [&](const KernelTable& table, const KernelContext& context) {
        Mantissas found(o.shape.input_count(), bits, 1);
        const WideStatistics statistics = wide_grad_input(
            choose_wide_grad_input(table, o.shape, o.grads.bits, o.weights.bits), table,
            {o.shape, o.grads.view(), o.weights.view(), shift, found.view()}, context);
        uint64_t maximum = 0;
        int64_t saturated = 0;
        for (size_t i = 0; i < wanted.size(); ++i) {
          const Wide rounded = exact_rne(wanted[i], shift);
          const Wide narrow = exact_saturate(rounded, mantissa_limit(bits));
          const Wide got = bits <= 8 ? Wide{found.narrow[i]} : Wide{found.wide[i]};
          ASSERT_EQ(got, narrow) << i;
          maximum = std::max(maximum, exact_magnitude(wanted[i]));
          saturated += narrow != rounded;
        }
        EXPECT_EQ(statistics.maximum, maximum);
        EXPECT_EQ(statistics.saturated, saturated);
      });
}

TEST(WideConvolution, EveryWidthIsExact) {
  const ConvolutionShape shape = test::shape_of(2, 7, 6, 5, 4, 3, 2, 1);
  for (int bits = 2; bits <= 16; ++bits) {
    SCOPED_TRACE(bits);
    Operands operands(shape, bits, 18 - bits, bits % 2 == 0 ? 16 : 8, 10 * bits);
    check_forward(operands);
    check_grad_weights(operands, bits - 6);
    check_grad_input(operands, bits, bits % 3 == 0 ? 8 : 16);
  }
}

TEST(WideConvolution, GradInputOfSomeImagesAtATimeIsExact) {
  for (const int64_t side : {330, 400}) {  // two images and then the last; one by one
    Operands operands(test::shape_of(3, side, side, 1, 2, 3, 1, 1), 8, 12, 16, 5);
    check_grad_input(operands, 9, 16);
    ConvolutionShape depthwise = test::shape_of(3, side, side, 2, 2, 3, 2, 1);
    depthwise.groups = 2;
    for (const int bits : {8, 16}) {
      Operands of_channels(depthwise, 16, 16, bits, 6);
      check_grad_input(of_channels, 9, bits);
    }
  }
}

// With random widths.
void check_random(const ConvolutionShape& s) {
  RC_PRE(s.multiply_adds() < 200'000);
  const auto bits = [] { return static_cast<int>(test::extent(2, 16)); };
  Operands operands(s, bits(), bits(), bits(), *rc::gen::arbitrary<uint32_t>());
  check_forward(operands);
  check_grad_weights(operands, static_cast<int>(test::extent(-10, 20)));
  check_grad_input(operands, static_cast<int>(test::extent(0, 30)), bits());
  RC_ASSERT(!::testing::Test::HasFailure());
}

TEST(WideConvolution, RandomShapesAreExact) {
  EXPECT_TRUE(rc::check("convolutions of up to 16 bits are exact sums", [] {
    ConvolutionShape s = test::random_window(2);
    s.groups = test::extent(1, 3);
    s.in_channels = s.groups * test::extent(1, 4);
    s.out_channels = s.groups * test::extent(1, 4);
    check_random(s);
  }));
}

TEST(WideConvolution, RandomDepthwiseShapesAreExact) {
  EXPECT_TRUE(rc::check("with a filter for each channel too", [] {
    ConvolutionShape s = test::random_window(2);
    s.groups = s.in_channels = s.out_channels = test::extent(1, 70);
    check_random(s);
  }));
}

// 8x9 taps are more than are added up as they are.
TEST(WideConvolution, LargeDepthwiseFiltersAreExact) {
  for (const int64_t width : {8, 9}) {
    ConvolutionShape s = test::shape_of(2, 12, 11, 5, 5, 8, 2, 3);
    s.kernel_width = width;
    s.out_width = (s.in_width + 2 * s.padding_width - width) / s.stride_width + 1;
    s.groups = 5;
    Operands operands(s, 16, 16, 16, 4);
    check_forward(operands);
    check_grad_input(operands, 9, 16);
  }
}

// The longest sum that is allowed, with the largest products. Also with the largest byte that
// planes have, -128 (-32512 is 256 * -127 - 128 + 128): in both operands, and with an operand of
// one plane.
TEST(WideConvolution, DeepSumsOfExtremesAreExact) {
  const ConvolutionShape shape = test::shape_of(1, 1, 1, kMaximumForwardDepth, 1, 1, 1, 0);
  const struct {
    int bits, input, weight;
  } kCases[] = {{16, 32767, -32767}, {16, -32767, -32767}, {16, -32512, -32512},
                {16, -32512, 32767}, {8, 127, -32512},     {8, -127, -32512}};
  for (const auto& [bits, input, weight] : kCases) {
    SCOPED_TRACE(std::to_string(input) + " * " + std::to_string(weight));
    Operands operands(shape, bits, 16, 16, 3);
    operands.input.fill(input);
    operands.weights.fill(weight);
    operands.bias[0] = (weight < 0) == (input < 0) ? int64_t{1} << 40 : -(int64_t{1} << 40);
    check_forward(operands);
  }
}

// As many positions as kernels add up before they test the size of the sums, and more.
TEST(WideConvolution, WeightSumsOfExtremesAreExact) {
  for (const int64_t groups : {1, 4}) {
    ConvolutionShape shape = test::shape_of(4, 2, 514, 4, 4, 3, 1, 1);
    shape.groups = groups;
    for (const int input : {-32512, -32767, 32767}) {
      SCOPED_TRACE(std::to_string(groups) + " groups, " + std::to_string(input));
      Operands operands(shape, 16, 16, 16, 3);
      operands.input.fill(input);
      operands.grads.fill(32767);
      check_grad_weights(operands, 3);
      operands.grads.fill(-32767);
      check_grad_weights(operands, 3);
    }
  }
}

TEST(WideConvolution, DepthwiseOnesAreProducts) {
  ConvolutionShape shape = test::shape_of(2, 9, 9, 6, 6, 3, 1, 1, 6);
  EXPECT_STREQ(wide_convolution_name(shape, 16, 8), "products");
  EXPECT_STREQ(wide_convolution_name(shape, 8, 12), "products");
  EXPECT_STREQ(wide_convolution_name(shape, 8, 8), "planes");  // only the result is wider
  shape.dilation = 2;
  EXPECT_STREQ(wide_convolution_name(shape, 16, 8), "planes");
  EXPECT_STREQ(wide_convolution_name(test::shape_of(1, 9, 9, 6, 6, 9, 1, 4, 6), 16, 8), "planes");
  EXPECT_STREQ(wide_convolution_name(test::shape_of(1, 9, 9, 6, 6, 3, 1, 1), 16, 8), "planes");
}

}  // namespace
}  // namespace mantissa::kernels
