// ReLU6, leaky ReLU, sigmoid, tanh, hard sigmoid, hard swish, GELU, SiLU, ELU, softplus and mish as
// operators: numbers, exponents, widths, threads, instruction sets. Their values:
// src/numerics/point_functions_test.cpp.
#include <gtest/gtest.h>

#include "numerics/point_functions.h"
#include "ops/value_histogram.h"
#include "tests/operators/single_op.h"

namespace mantissa::testing {
namespace {

struct Subject {
  const Op* op;
  const PointFunction* function;
  Attributes attributes = {};
  Fraction slope = {1, 100};
};

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> list = {
      {&ops::kRelu6, &kRelu6Function},
      {&ops::kLeakyRelu, &kLeakyReluFunction},
      {&ops::kLeakyRelu, &kLeakyReluFunction, {{"slope", 0.25}}, {1, 4}},
      {&ops::kSigmoid, &kSigmoidFunction},
      {&ops::kTanh, &kTanhFunction},
      {&ops::kHardSigmoid, &kHardSigmoidFunction},
      {&ops::kHardSwish, &kHardSwishFunction},
      {&ops::kGelu, &kGeluFunction},
      {&ops::kGeluTanh, &kGeluTanhFunction},
      {&ops::kSilu, &kSiluFunction},
      {&ops::kElu, &kEluFunction, {}, {1, 1}},
      {&ops::kElu, &kEluFunction, {{"alpha", 1.75}}, {7, 4}},
      {&ops::kSoftplus, &kSoftplusFunction},
      {&ops::kMish, &kMishFunction}};
  return list;
}

constexpr int kInputExponents[] = {-90, -20, -9, -7, -5, -4, -1, 0, 1, 2, 5, 90};
constexpr int kPointBits[] = {6, 8, 12, 16};

std::vector<__int128> wide_of(const Subject& s, const Mantissas& in) {
  std::vector<__int128> wide;
  for (const int q : in.values) wide.push_back(s.function->value(q, in.exponent, s.slope));
  return wide;
}

TEST(Pointwise, ForwardIsTheFunctionNarrowedOnce) {
  for (const Subject& s : subjects()) {
    for (const int exponent : kInputExponents) {
      const Mantissas in = some_mantissas(4 * 50, 8, exponent, 1);
      int64_t saturated = 0;
      const Mantissas wanted =
          narrowed(wide_of(s, in), s.function->wide_exponent(exponent), 8, &saturated);
      for (const ExponentMode mode : {ExponentMode::kExact, ExponentMode::kPredicted}) {
        SingleOp op(*s.op, s.attributes, {Shape{50}}, 4);
        EXPECT_EQ(op.forward({in}, mode, -3), wanted) << s.op->name << " " << exponent;
        EXPECT_EQ(op.saturated(), saturated) << s.op->name << " " << exponent;
        EXPECT_FALSE(op.totals().exponent_overflow);
      }
    }
  }
}

TEST(Pointwise, Relu6OfAnyExponentIsClippedExactlyAtSix) {
  SingleOp op(ops::kRelu6, {}, {Shape{5}});
  EXPECT_EQ(op.forward({{{-127, 0, 50, 96, 127}, -4}}), (Mantissas{{0, 0, 50, 96, 96}, -4}));
  EXPECT_EQ(op.forward({{{-127, 0, 50, 96, 127}, -5}}), (Mantissas{{0, 0, 50, 96, 127}, -5}));
  EXPECT_EQ(op.forward({{{-127, 0, 1, 2, 3}, 1}}), (Mantissas{{0, 0, 2, 4, 6}, 0}));
  EXPECT_EQ(op.forward({{{-127, 0, 1, 2, 3}, 7}}), (Mantissas{{0, 0, 6, 6, 6}, 0}));
  EXPECT_EQ(op.forward({{{-127, 0, -1, -2, -3}, 7}}),
            (Mantissas{{0, 0, 0, 0, 0}, zero_exponent(8)}));
}

TEST(Pointwise, AFixedExponentRoundsOrClips) {
  SingleOp op(ops::kSigmoid, {}, {Shape{3}});
  const Mantissas in = {{0, 127, -127}, 0};  // 1/2, 1, 0
  EXPECT_EQ(op.forward({in}, ExponentMode::kFixed, -7), (Mantissas{{64, 127, 0}, -7}));
  EXPECT_EQ(op.saturated(), 1);
  EXPECT_EQ(op.forward({in}, ExponentMode::kFixed, -1), (Mantissas{{1, 2, 0}, -1}));
  EXPECT_EQ(op.forward({in}, ExponentMode::kFixed, 40), (Mantissas{{0, 0, 0}, 40}));
  EXPECT_EQ(op.forward({in}, ExponentMode::kFixed, -50), (Mantissas{{127, 127, 0}, -50}));
  EXPECT_EQ(op.saturated(), 2);
}

TEST(Pointwise, CalibrationCountsWhatComesOut) {
  SingleOp op(ops::kRelu6, {}, {Shape{6}});
  op.forward({{{-3, 1, 1, 2, 96, 127}, -4}}, ExponentMode::kCalibrate);
  EXPECT_EQ(op.histogram()[ops::kZerosBin], 1);
  EXPECT_EQ(op.histogram()[128 - 4], 5);  // at most 6 = 96 / 16: all fit at -4
  SingleOp halves(ops::kSigmoid, {}, {Shape{6}});
  halves.forward({{{0, 0, 0, 0, 0, -127}, 3}}, ExponentMode::kCalibrate);
  EXPECT_EQ(halves.histogram()[128 - 7], 5);         // 1/2 = 64 / 128; 128 / 256 is too large
  EXPECT_EQ(halves.histogram()[ops::kZerosBin], 1);  // e^-1016
}

TEST(Pointwise, BackwardIsGradientTimesDerivativeNarrowedOnce) {
  for (const Subject& s : subjects()) {
    for (const int exponent : kInputExponents) {
      const Mantissas in = some_mantissas(4 * 50, 8, exponent, 2);
      for (const int bits : kPointBits) {
        for (const int bits_out : {bits, 16}) {
          const bool passes = passes_gradient(*s.op);
          if (passes && bits_out != bits) continue;
          const Mantissas grad = some_mantissas(4 * 50, bits, -17, 3);
          std::vector<__int128> wide;
          Mantissas wanted{{}, -17, bits};
          for (size_t i = 0; i < in.values.size(); ++i) {
            const int64_t slope = s.function->derivative_q30(in.values[i], exponent, s.slope);
            wide.push_back(static_cast<__int128>(grad.values[i]) * slope);
            wanted.values.push_back(slope != 0 ? grad.values[i] : 0);
          }
          if (!passes) wanted = narrowed(wide, -17 - 30, bits_out);
          SingleOp op(*s.op, s.attributes, {Shape{50}}, 4);
          EXPECT_EQ(op.backward({in}, grad, bits_out), (std::vector<Mantissas>{wanted}))
              << s.op->name << " " << exponent << " " << bits << " to " << bits_out;
        }
      }
    }
  }
}

TEST(Pointwise, ThreadsAndInstructionSetsChangeNothing) {
  constexpr int64_t kPoints = 70001;  // several grains and a rest
  for (const Subject& s : subjects()) {
    const Mantissas in = some_mantissas(kPoints, 8, -4, 4);
    const Mantissas grad = some_mantissas(kPoints, 8, -17, 5);
    SingleOp scalar(*s.op, s.attributes, {Shape{kPoints}}, 1, 1, Isa::kScalar);
    const Mantissas forward = scalar.forward({in});
    const auto backward = scalar.backward({in}, grad, 8);
    for (const Isa isa : kAllIsas) {
      if (!is_supported(isa)) continue;
      for (const int threads : {1, 2, 3}) {
        SingleOp op(*s.op, s.attributes, {Shape{kPoints}}, 1, threads, isa);
        EXPECT_EQ(op.forward({in}), forward) << s.op->name;
        EXPECT_EQ(op.backward({in}, grad, 8), backward) << s.op->name;
      }
    }
  }
}

// Fewer elements, and so many that all results come from a table.
TEST(Pointwise, ManyWideElementsAreLookedUpWithTheSameBits) {
  for (const Subject& s : subjects()) {
    for (const auto& [bits, count] : {std::pair{9, 2047}, {9, 2048}, {12, 16384}, {16, 262145}}) {
      const Mantissas in = some_mantissas(count, bits, -bits + 3, 6);
      const Mantissas grad = some_mantissas(count, 16, -17, 7);
      std::vector<__int128> wide;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t slope = s.function->derivative_q30(in.values[i], in.exponent, s.slope);
        wide.push_back(static_cast<__int128>(grad.values[i]) * slope);
      }
      const Mantissas forward = narrowed(wide_of(s, in), s.function->wide_exponent(in.exponent), 8);
      const Mantissas backward = narrowed(wide, -17 - 30, 16);
      for (const int threads : {1, 3}) {
        SingleOp op(*s.op, s.attributes, {Shape{count}}, 1, threads);
        EXPECT_EQ(op.forward({in}), forward) << s.op->name << " " << count;
        if (passes_gradient(*s.op)) continue;
        EXPECT_EQ(op.backward({in}, grad, 16), std::vector{backward}) << s.op->name << " " << count;
      }
    }
  }
}

std::string refusal(const Op& op, const Attributes& attributes, std::vector<Shape> inputs) {
  const auto shape = output_shape(op, attributes, inputs);
  return shape.ok() ? "accepted " + to_string(*shape) : shape.error().message;
}

TEST(Pointwise, RefusesImpossibleSlopesAndSeveralInputs) {
  EXPECT_EQ(refusal(ops::kLeakyRelu, {{"slope", -0.25}}, {Shape{3}}),
            "attribute 'slope' is -0.25; wants 0 to 1");
  EXPECT_EQ(refusal(ops::kLeakyRelu, {{"slope", 1.25}}, {Shape{3}}),
            "attribute 'slope' is 1.25; wants 0 to 1");
  EXPECT_EQ(refusal(ops::kElu, {{"alpha", 2.5}}, {Shape{3}}),
            "attribute 'alpha' is 2.5; wants 0 to 2");
  for (const Subject& s : subjects()) {
    EXPECT_EQ(refusal(*s.op, {}, {Shape{3}, Shape{3}}), "wants one input");
    EXPECT_EQ(refusal(*s.op, {}, {}), "wants one input");
    EXPECT_EQ(refusal(*s.op, {}, {Shape{3, 4, 5}}), "accepted [3, 4, 5]");
  }
}

}  // namespace
}  // namespace mantissa::testing
