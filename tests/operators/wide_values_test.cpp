// Operators on values of more than 8 bits, and of unequal widths, against their definitions in 128
// bits.
#include <gtest/gtest.h>

#include "kernels/elementwise/test_values.h"
#include "numerics/test_fixed_point.h"
#include "tests/operators/single_op.h"

namespace mantissa::testing {
namespace {

using Wide = __int128;
constexpr int64_t kWideBatch = 3, kHeight = 5, kWideWidth = 6, kWideChannels = 7;
constexpr int64_t kImageCount = kHeight * kWideWidth * kWideChannels,
                  kWideCount = kWideBatch * kImageCount;
const Shape kWideImage{kHeight, kWideWidth, kWideChannels};

// Widths of two inputs and of the output: at least one is above 8.
struct Widths {
  int a, b, out;
};
constexpr Widths kWidths[] = {{16, 16, 16}, {9, 9, 9},  {8, 16, 8},  {16, 8, 8},
                              {16, 16, 8},  {8, 8, 12}, {11, 13, 15}};

// Every mode narrows these wide values as the definition does.
void expect_narrowed(const Op& op, const Attributes& attributes, const std::vector<Shape>& shapes,
                     const std::vector<Mantissas>& inputs, const std::vector<Wide>& wide,
                     int wide_exponent, int bits) {
  const Mantissas wanted = narrowed(wide, wide_exponent, bits);
  for (const int threads : {1, 3}) {
    SingleOp single(op, attributes, shapes, kWideBatch, threads);
    EXPECT_EQ(single.forward(inputs, ExponentMode::kExact, 0, bits), wanted);
    EXPECT_EQ(single.forward(inputs, ExponentMode::kPredicted, 3, bits), wanted);
    EXPECT_EQ(single.forward(inputs, ExponentMode::kCalibrate, 0, bits), wanted);
    int64_t counted = 0;
    for (const int64_t count : single.histogram()) counted += count;
    EXPECT_EQ(counted, static_cast<int64_t>(wide.size()));
    EXPECT_EQ(single.forward(inputs, ExponentMode::kFixed, wanted.exponent, bits), wanted);
    const Mantissas fine = single.forward(inputs, ExponentMode::kFixed, -100, bits);
    const Mantissas coarse = single.forward(inputs, ExponentMode::kFixed, 100, bits);
    for (size_t i = 0; i < wide.size(); ++i) {
      const int limit = static_cast<int>(mantissa_limit(bits));
      ASSERT_EQ(fine.values[i], wide[i] > 0 ? limit : wide[i] < 0 ? -limit : 0);
      ASSERT_EQ(coarse.values[i], 0);
    }
  }
}

TEST(WideValues, AddAlignsToFortyBits) {
  for (const Widths& w : kWidths) {
    const Mantissas a = some_mantissas(kWideCount, w.a, -6, 1);
    for (const int exponent : {-9, -6, 2, -60}) {
      const Mantissas b = some_mantissas(kWideCount, w.b, exponent, 2);
      const int wide_exponent = std::max(std::min(-6, exponent), std::max(-6, exponent) - 40);
      std::vector<Wide> wide;
      for (int64_t i = 0; i < kWideCount; ++i) {
        wide.push_back(kernels::exact_rne(a.values[i], wide_exponent + 6) +
                       kernels::exact_rne(b.values[i], wide_exponent - exponent));
      }
      expect_narrowed(ops::kAdd, {}, {kWideImage, kWideImage}, {a, b}, wide, wide_exponent, w.out);
    }
  }
}

TEST(WideValues, ProductsAndGatesAreExact) {
  for (const Widths& w : kWidths) {
    const Mantissas a = some_mantissas(kWideCount, w.a, -6, 3);
    const Mantissas b = some_mantissas(kWideCount, w.b, -8, 4);
    const Mantissas gate = some_mantissas(kWideBatch * kWideChannels, w.b, -8, 5);
    std::vector<Wide> products, gated;
    for (int64_t i = 0; i < kWideCount; ++i) {
      products.push_back(Wide{a.values[i]} * b.values[i]);
      gated.push_back(Wide{a.values[i]} *
                      gate.values[i / kImageCount * kWideChannels + i % kWideChannels]);
    }
    expect_narrowed(ops::kMultiply, {}, {kWideImage, kWideImage}, {a, b}, products, -14, w.out);
    expect_narrowed(ops::kMultiply, {}, {kWideImage, Shape{kWideChannels}}, {a, gate}, gated, -14,
                    w.out);
  }
}

TEST(WideValues, FactorsAreExact) {
  struct Factor {
    double factor;
    int64_t mantissa;
    int exponent;
  };
  constexpr Factor kFactors[] = {{1, 1, 0},
                                 {2, 1, 1},
                                 {0.25, 1, -2},
                                 {2.5, 5, -1},
                                 {0x1p-24, 1, -24},
                                 {1.0 / 3, 11184811, -25}};  // the nearest of 24 bits
  std::vector<Widths> widths(std::begin(kWidths), std::end(kWidths));
  widths.push_back({8, 8, 8});
  for (const Widths& w : widths) {
    const Mantissas in = some_mantissas(kWideCount, w.a, -6, 7);
    for (const Factor& f : kFactors) {
      std::vector<Wide> wide;
      for (const int value : in.values) wide.push_back(Wide{value} * f.mantissa);
      expect_narrowed(ops::kScale, {{"factor", f.factor}}, {kWideImage}, {in}, wide,
                      f.exponent - 6, w.out);
    }
  }
}

TEST(WideValues, AveragesAreExactSumsTimesAReciprocal) {
  for (const Widths& w : kWidths) {
    const Mantissas in = some_mantissas(kWideCount, w.a, -6, 6);
    const auto average = [&](int64_t height, int64_t width) {
      const double real = 1.0 / static_cast<double>(height * width);
      const int shift = fixed_point_shift(real, 31);
      const int64_t multiplier = to_fixed_point(real, shift, mantissa_limit(32));
      std::vector<Wide> wide;
      for (int64_t n = 0; n < kWideBatch; ++n) {
        for (int64_t y = 0; y + height <= kHeight; y += height) {
          for (int64_t x = 0; x + width <= kWideWidth; x += width) {
            for (int64_t c = 0; c < kWideChannels; ++c) {
              Wide sum = 0;
              for (int64_t k = 0; k < height * width; ++k) {
                const int64_t row = n * kHeight + y + k / width, column = x + k % width;
                sum += in.values[(row * kWideWidth + column) * kWideChannels + c];
              }
              wide.push_back(sum * multiplier);
            }
          }
        }
      }
      return std::pair(wide, -6 - shift);
    };
    const auto [whole, whole_exponent] = average(kHeight, kWideWidth);
    expect_narrowed(ops::kGlobalAveragePool, {}, {kWideImage}, {in}, whole, whole_exponent, w.out);
    const auto [windows, exponent] = average(2, 2);
    expect_narrowed(ops::kAveragePool, {{"window", 2}}, {kWideImage}, {in}, windows, exponent,
                    w.out);
  }
}

TEST(WideValues, Relu6IsExact) {
  for (const Widths& w : kWidths) {
    if (w.a <= 8 && w.out <= 8) continue;  // by a table
    const Mantissas in = some_mantissas(kWideCount, w.a, -12, 7);
    std::vector<Wide> wide;
    for (const int q : in.values) wide.push_back(std::clamp(q, 0, 6 << 12));
    expect_narrowed(ops::kRelu6, {}, {kWideImage}, {in}, wide, -12, w.out);
  }
}

TEST(WideValues, ConcatRoundsToTheLargestExponent) {
  for (const int bits : {9, 16}) {
    for (const int shift : {0, 1, 9, 15, 16, 17, 40}) {
      const Mantissas a = some_mantissas(kWideCount, bits, -20 - shift, 8);
      const Mantissas b = some_mantissas(kWideCount, bits, -20, 9);
      SingleOp op(ops::kConcat, {}, {kWideImage, kWideImage}, kWideBatch, 2);
      const Mantissas found = op.forward({a, b}, ExponentMode::kExact, 0, bits);
      EXPECT_EQ(found.exponent, -20);
      for (int64_t i = 0; i < kWideCount; ++i) {
        const int64_t at = i / kWideChannels * 2 * kWideChannels + i % kWideChannels;
        ASSERT_EQ(Wide{found.values[at]}, kernels::exact_rne(a.values[i], shift)) << shift;
        ASSERT_EQ(found.values[at + kWideChannels], b.values[i]) << shift;
      }
    }
  }
}

// The first maximum of each window receives the gradient; rows and columns left over receive none.
TEST(WideValues, MaxPoolKeepsMantissasAndSendsGradientsToTheFirstMaximum) {
  for (const int bits : {9, 16}) {
    for (const int64_t window : {2, 3}) {
      const Mantissas in = some_mantissas(kWideCount, bits, -6, 10);
      const int64_t height = kHeight / window, width = kWideWidth / window;
      const Mantissas grad =
          some_mantissas(kWideBatch * height * width * kWideChannels, 16, -20, 11);
      Mantissas best{{}, -6, bits}, to{std::vector<int>(kWideCount), -20, 16};
      for (size_t i = 0; i < grad.values.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        const int64_t c = at % kWideChannels, x = at / kWideChannels % width;
        const int64_t y = at / kWideChannels / width % height,
                      n = at / kWideChannels / width / height;
        int64_t first = -1;
        for (int64_t k = 0; k < window * window; ++k) {
          const int64_t row = n * kHeight + y * window + k / window;
          const int64_t cell = (row * kWideWidth + x * window + k % window) * kWideChannels + c;
          if (first < 0 || in.values[cell] > in.values[first]) first = cell;
        }
        best.values.push_back(in.values[first]);
        to.values[first] = grad.values[i];
      }
      SingleOp op(ops::kMaxPool, {{"window", window}}, {kWideImage}, kWideBatch, 2);
      EXPECT_EQ(op.forward({in}, ExponentMode::kExact, 0, bits), best);
      EXPECT_EQ(op.backward({in}, grad, 16), std::vector<Mantissas>{to});
    }
  }
}

}  // namespace
}  // namespace mantissa::testing
