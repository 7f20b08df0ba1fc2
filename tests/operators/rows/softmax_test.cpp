// Softmax as a layer: exact cases, all widths against double, every instruction set and number of
// threads, and long axes.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/operators/single_op.h"

namespace mantissa::testing {
namespace {

TEST(Softmax, OfEqualNumbersAndOfOneThatIsFarAbove) {
  SingleOp op(ops::kSoftmax, {}, {{2, 4}}, 1);
  const Mantissas y = op.forward({{{5, 5, 5, 5, 127, 0, 0, -127}, 0, 8}});
  // 1/4 and 1 in one block: of 2^-7 there are at most 127.
  EXPECT_EQ(y.exponent, -7);
  EXPECT_EQ(y.values, (std::vector<int>{32, 32, 32, 32, 127, 0, 0, 0}));
  const std::vector<Mantissas> back =
      op.backward({{{5, 5, 5, 5, 127, 0, 0, -127}, 0, 8}}, {{8, 0, 0, 0, 9, 1, 2, 3}, 0, 16}, 16);
  // 1/4 (8 - 2) and 1/4 (0 - 2); where p is 0 or 1 nothing comes back.
  const double unit = std::ldexp(1, back[0].exponent);
  const double wanted[] = {1.5, -0.5, -0.5, -0.5, 0, 0, 0, 0};
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(back[0].values[i] * unit, wanted[i]) << i;
}

// The element of a row [outer, count, inner] along each axis of [5, 4, 6].
struct Axis {
  const char* over;
  int64_t outer, count, inner;
};
constexpr Axis kAxes[] = {
    {"channels", 20, 6, 1}, {"width", 5, 4, 6}, {"height", 1, 5, 24}, {"positions", 1, 20, 6}};

TEST(Softmax, IsItsDefinitionOverEachAxisInAllWidths) {
  for (const Axis& axis : kAxes) {
    for (const int bits : {8, 16}) {
      for (const int grad_bits : {8, 16, 32}) {
        SCOPED_TRACE(::testing::Message() << axis.over << " " << bits << " " << grad_bits);
        const Mantissas x = some_mantissas(2 * 120, bits, 2 - bits, 3),
                        grad = some_mantissas(2 * 120, grad_bits, -9, 4);
        const auto run = [&](int threads, Isa isa) {
          SingleOp op(ops::kSoftmax, {{"over", axis.over}}, {{5, 4, 6}}, 2, threads, isa);
          return std::pair(op.forward({x}, ExponentMode::kExact, 0, bits),
                           op.backward({x}, grad, 16)[0]);
        };
        const auto [y, back] = run(1, Isa::kScalar);
        for (const Isa isa : kAllIsas) {
          if (!is_supported(isa)) continue;
          for (const int threads : {1, 3}) EXPECT_EQ(run(threads, isa), std::pair(y, back));
        }
        std::vector<double> wanted(240), wanted_back(240);
        double steepest = 0;
        for (int64_t row = 0; row < 240 / axis.count; ++row) {
          const int64_t first = row / axis.inner * axis.count * axis.inner + row % axis.inner;
          double sum = 0, mean = 0;
          for (int64_t k = 0; k < axis.count; ++k) {
            const int64_t at = first + k * axis.inner;
            sum += wanted[at] = std::exp(std::ldexp(x.values[at], x.exponent));
          }
          for (int64_t k = 0; k < axis.count; ++k) {
            const int64_t at = first + k * axis.inner;
            wanted[at] /= sum;
            mean += wanted[at] * std::ldexp(grad.values[at], grad.exponent);
          }
          for (int64_t k = 0; k < axis.count; ++k) {
            const int64_t at = first + k * axis.inner;
            wanted_back[at] = wanted[at] * (std::ldexp(grad.values[at], grad.exponent) - mean);
            steepest = std::max(steepest, std::abs(wanted_back[at]));
          }
        }
        const double unit = std::ldexp(1, y.exponent), step = std::ldexp(1, back.exponent);
        for (size_t i = 0; i < 240; ++i) {
          ASSERT_GE(y.values[i], 0);
          const bool is_clipped = y.values[i] == mantissa_limit(bits);
          ASSERT_NEAR(y.values[i] * unit, wanted[i],
                      (is_clipped ? 1.01 : 0.51) * unit + 1e-5 * wanted[i])
              << i;
          ASSERT_NEAR(back.values[i] * step, wanted_back[i], 0.51 * step + 2e-5 * steepest) << i;
        }
      }
    }
  }
}

TEST(Softmax, OfLongRowsAddsUpToOne) {
  SingleOp op(ops::kSoftmax, {{"over", "positions"}}, {{3000, 2}}, 1, 2);
  const Mantissas y =
      op.forward({some_mantissas(6000, 8, -7, 5)}, ExponentMode::kExact, 0, 16);
  for (int64_t c = 0; c < 2; ++c) {
    double sum = 0;
    for (size_t i = c; i < y.values.size(); i += 2) sum += std::ldexp(y.values[i], y.exponent);
    EXPECT_NEAR(sum, 1, 1e-4);
  }
}

TEST(Softmax, RefusesAxesThatAreNotThere) {
  const std::vector<Shape> row = {Shape{5, 3}}, vector = {Shape{4}};
  EXPECT_FALSE(output_shape(ops::kSoftmax, {{"over", "height"}}, row).ok());
  EXPECT_FALSE(output_shape(ops::kSoftmax, {{"over", "positions"}}, vector).ok());
  EXPECT_EQ(*output_shape(ops::kSoftmax, {}, vector), (Shape{4}));
  EXPECT_EQ(*output_shape(ops::kSoftmax, {{"over", "positions"}}, row), (Shape{5, 3}));
}

}  // namespace
}  // namespace mantissa::testing
