// grad_weights of 32-bit gradients by every instruction set's kernels against the exact sums.
#include "kernels/convolution/gradient_digits.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "kernels/convolution/choice.h"
#include "kernels/convolution/test_products.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

ConvolutionShape with_dilation(ConvolutionShape s, int64_t dilation) {
  s.dilation = dilation;
  s.out_height = s.in_height + 2 * s.padding_height - (s.kernel_height - 1) * dilation;
  s.out_width = s.in_width + 2 * s.padding_width - (s.kernel_width - 1) * dilation;
  return s;
}

const ConvolutionShape kDigitShapes[] = {
    test::shape_of(3, 9, 7, 5, 6, 3, 1, 1),
    test::shape_of(2, 9, 9, 16, 24, 3, 2, 1),
    test::shape_of(8, 1, 1, 40, 10, 1, 1, 0),      // linear
    test::shape_of(2, 8, 8, 24, 24, 3, 1, 1, 24),  // depthwise
    test::shape_of(2, 8, 8, 12, 18, 3, 1, 1, 3),   // groups
    with_dilation(test::shape_of(2, 9, 9, 5, 7, 3, 1, 2), 2),
};

int32_t extreme(uint64_t bits) {
  constexpr int32_t kValues[] = {INT32_MAX,  -INT32_MAX, 0,          1,
                                 -1,         1 << 15,    -(1 << 15), 1 << 10,
                                 -(1 << 10), 1 << 21,    -(1 << 21), (1 << 21) - 1};
  return kValues[bits % std::size(kValues)];
}

struct Case {
  std::vector<int8_t> input;
  std::vector<int32_t> gradient;
};

Case make_case(const ConvolutionShape& s, bool extremes) {
  Case result;
  for (int64_t i = 0; i < s.input_count(); ++i) {
    const uint64_t bits = random_bits(1, RandomStream::kShuffle, 0, static_cast<uint64_t>(i));
    result.input.push_back(static_cast<int8_t>(static_cast<int>(bits % 255) - 127));
  }
  for (int64_t i = 0; i < s.output_count(); ++i) {
    const uint64_t bits = random_bits(2, RandomStream::kShuffle, 0, static_cast<uint64_t>(i));
    const auto any = static_cast<int32_t>(bits >> 32);
    result.gradient.push_back(extremes ? extreme(bits) : any == INT32_MIN ? 0 : any);
  }
  return result;
}

std::vector<__int128> exact_sums(const ConvolutionShape& s, const Case& c) {
  std::vector<__int128> sums(static_cast<size_t>(s.weights_count()), 0);
  test::for_each_product(s, [&](int64_t out, int64_t in, int64_t w) {
    sums[w] += __int128{c.gradient[out]} * c.input[in];
  });
  return sums;
}

void check(const ConvolutionShape& shape, const Case& c, std::initializer_list<int> shifts) {
  const ConvolutionWork work{ConvolutionPass::kGradWeights, shape, 32};
  const std::vector<__int128> sums = exact_sums(shape, c);
  test::with_every_kernel(
      [&](const KernelTable& table, int threads) {
        return convolution_scratch_bytes(table.convolution, work, threads);
      },
      [&](const KernelTable& table, const KernelContext& context) {
        for (const int shift : shifts) {
          const bool adds = shift % 2 != 0;
          std::vector<int64_t> found(sums.size(), 5);
          choose_convolution(table.convolution, work)
              .grad_weights(
                  {shape, c.input.data(), {c.gradient.data(), 32}, shift, {found.data()}, adds},
                  context);
          for (size_t i = 0; i < sums.size(); ++i) {
            ASSERT_EQ(found[i],
                      accumulate(adds ? 5 : 0, rescale_rne(static_cast<int64_t>(sums[i]), shift)))
                << "shift " << shift << " weight " << i;
          }
        }
      });
}

TEST(WideGradient, SumsAreExactAndRoundedOnce) {
  for (const ConvolutionShape& shape : kDigitShapes) {
    for (const bool extremes : {false, true}) {
      check(shape, make_case(shape, extremes), {-3, 0, 1, 17, 40});
    }
  }
}

// The most pixels that are allowed, all with the largest product: 2^22 * 2^31 * 2^7.
TEST(WideGradient, TheLargestSumsAreExact) {
  const ConvolutionShape shape = test::shape_of(kMaximumWideGradientPixels, 1, 1, 1, 1, 1, 1, 0);
  for (const int sign : {1, -1}) {
    const Case c{std::vector<int8_t>(shape.input_count(), static_cast<int8_t>(127 * sign)),
                 std::vector<int32_t>(shape.output_count(), INT32_MAX)};
    check(shape, c, {0, 20});
  }
}

}  // namespace
}  // namespace mantissa::kernels
