// Products of two values: equal shapes and gates, against exact products.
#include <gtest/gtest.h>

#include "tests/operators/single_op.h"

namespace mantissa::testing {
namespace {

constexpr int kGateBits[] = {6, 8, 12, 16};
constexpr int64_t kGateBatch = 3, kPixels = 4 * 5, kGateChannels = 7;
constexpr int64_t kCount = kGateBatch * kPixels * kGateChannels;
const Shape kImage{4, 5, kGateChannels};

// The element of the second input that meets element i of the first.
int64_t partner(bool gate, int64_t i) {
  return gate ? i / (kPixels * kGateChannels) * kGateChannels + i % kGateChannels : i;
}

struct Factors {
  bool gate;
  Shape second;
  Mantissas a, b;
};

std::vector<Factors> operands() {
  const Mantissas a = some_mantissas(kCount, 8, -6, 1);
  const Mantissas gate = some_mantissas(kGateBatch * kGateChannels, 8, -7, 2);
  return {{false, kImage, a, some_mantissas(kCount, 8, -4, 3)},
          {true, Shape{kGateChannels}, a, gate},
          {true, Shape{1, 1, kGateChannels}, a, gate}};
}

TEST(Multiply, ForwardIsTheExactProductNarrowedOnce) {
  for (const Factors& o : operands()) {
    std::vector<__int128> wide;
    for (int64_t i = 0; i < kCount; ++i) {
      wide.push_back(o.a.values[i] * o.b.values[partner(o.gate, i)]);
    }
    const Mantissas wanted = narrowed(wide, o.a.exponent + o.b.exponent, 8);
    for (const int threads : {1, 3}) {
      SingleOp op(ops::kMultiply, {}, {kImage, o.second}, kGateBatch, threads);
      EXPECT_EQ(op.forward({o.a, o.b}), wanted);
      EXPECT_EQ(op.forward({o.a, o.b}, ExponentMode::kPredicted, 3), wanted);
      EXPECT_EQ(op.forward({o.a, o.b}, ExponentMode::kCalibrate), wanted);
      int64_t counted = 0;
      for (const int64_t count : op.histogram()) counted += count;
      EXPECT_EQ(counted, kCount);
      EXPECT_EQ(op.forward({o.a, o.b}, ExponentMode::kFixed, wanted.exponent), wanted);
      const Mantissas fine = op.forward({o.a, o.b}, ExponentMode::kFixed, -40);
      const Mantissas coarse = op.forward({o.a, o.b}, ExponentMode::kFixed, 40);
      for (int64_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(fine.values[i], wide[i] > 0 ? 127 : wide[i] < 0 ? -127 : 0);
        ASSERT_EQ(coarse.values[i], 0);
      }
    }
  }
}

TEST(Multiply, BackwardIsGradientTimesTheOtherNarrowedOnce) {
  for (const Factors& o : operands()) {
    for (const int bits : kGateBits) {
      const Mantissas grad = some_mantissas(kCount, bits, -20, 4);
      std::vector<__int128> wide_a, wide_b(o.b.values.size());
      for (int64_t i = 0; i < kCount; ++i) {
        const int64_t j = partner(o.gate, i);
        wide_a.push_back(__int128{grad.values[i]} * o.b.values[j]);
        wide_b[j] += __int128{grad.values[i]} * o.a.values[i];
      }
      for (const int bits_out : {bits, 16}) {
        const std::vector<Mantissas> wanted = {narrowed(wide_a, -20 + o.b.exponent, bits_out),
                                               narrowed(wide_b, -20 + o.a.exponent, bits_out)};
        for (const Isa isa : {Isa::kScalar, best_isa()}) {
          for (const int threads : {1, 3}) {
            SingleOp op(ops::kMultiply, {}, {kImage, o.second}, kGateBatch, threads, isa);
            EXPECT_EQ(op.backward({o.a, o.b}, grad, bits_out), wanted) << bits;
          }
        }
      }
    }
  }
}

TEST(Multiply, RefusesShapesThatDoNotMeet) {
  for (const std::vector<Shape>& shapes : {std::vector{kImage},
                                           {kImage, Shape{kGateChannels - 1}},
                                           {Shape{kGateChannels}, kImage},
                                           {kImage, Shape{4, 5, 1}},
                                           {kImage, kImage, kImage}}) {
    const auto shape = output_shape(ops::kMultiply, {}, shapes);
    ASSERT_FALSE(shape.ok());
    EXPECT_EQ(shape.error().message,
              "wants two inputs of one shape, or [H, W, C], [T, C] or [D, H, W, C] and a gate [C]");
  }
}

}  // namespace
}  // namespace mantissa::testing
