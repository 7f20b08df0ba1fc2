// Group norm: values of extremes against the definition, and examples that do not depend on each
// other. Its gradients: gradient_check_test.cpp.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/operators/single_op.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kNormRows = 12, kNormChannels = 6, kNormExamples = 3;
constexpr double kGroupEpsilon = 1e-5;

// Scales and offsets of a channel, in units of 2^-12 and 2^-13.
std::vector<Mantissas> norm_parameters() {
  return {{{4096, -8192, 3000, 32767, 1, 0}, -12, 16},
          {{0, 8192, -32767, 5, 16384, 4096}, -13, 16}};
}

std::vector<double> group_norm_definition(const Mantissas& in, int64_t groups) {
  std::vector<double> y(in.values.size());
  const int64_t of_group = kNormChannels / groups;
  for (int64_t i = 0; i < kNormExamples * groups; ++i) {
    const auto for_group = [&](const auto& visit) {
      for (int64_t row = 0; row < kNormRows; ++row) {
        for (int64_t c = i % groups * of_group; c < (i % groups + 1) * of_group; ++c) {
          visit(static_cast<size_t>((i / groups * kNormRows + row) * kNormChannels + c),
                static_cast<size_t>(c));
        }
      }
    };
    const auto n = static_cast<double>(kNormRows * of_group);
    double mean = 0, variance = 0;
    const auto x = [&](size_t at) { return std::ldexp(in.values[at], in.exponent); };
    for_group([&](size_t at, size_t) { mean += x(at) / n; });
    for_group([&](size_t at, size_t) { variance += (x(at) - mean) * (x(at) - mean) / n; });
    for_group([&](size_t at, size_t c) {
      y[at] = std::ldexp(norm_parameters()[0].values[c], -12) * (x(at) - mean) /
                  std::sqrt(variance + kGroupEpsilon) +
              std::ldexp(norm_parameters()[1].values[c], -13);
    });
  }
  return y;
}

Attributes groups_attributes(int64_t groups) {
  return {{"groups", groups}, {"epsilon", kGroupEpsilon}};
}

// Half a unit of the result, and what integers of 29 and 31 bits round.
TEST(GroupNorm, IsItsDefinitionNarrowedOnce) {
  for (const int64_t groups : {1, 2, 3, 6}) {
    for (const int bits : {8, 16}) {
      for (const int exponent : {-30, -7, 0, 12}) {
        for (const int out_bits : {8, 16}) {
          const Mantissas in =
              some_mantissas(kNormExamples * kNormRows * kNormChannels, bits, exponent, 1 + groups);
          const std::vector<double> wanted = group_norm_definition(in, groups);
          for (const int threads : {1, 3}) {
            SingleOp op(ops::kGroupNorm, groups_attributes(groups),
                        {Shape{kNormRows, kNormChannels}}, kNormExamples, threads);
            op.set_parameters(norm_parameters());
            const Mantissas found = op.forward({in}, ExponentMode::kExact, 0, out_bits);
            for (size_t i = 0; i < wanted.size(); ++i) {
              // What rounds to a power of two is clipped.
              const bool is_largest = std::abs(found.values[i]) == mantissa_limit(out_bits);
              ASSERT_NEAR(std::ldexp(found.values[i], found.exponent), wanted[i],
                          std::ldexp(is_largest ? 1 : 0.5, found.exponent) + 1e-6)
                  << groups << " " << bits << " " << exponent << " " << i;
            }
          }
        }
      }
    }
  }
}

TEST(GroupNorm, OfAConstantIsTheOffset) {
  Mantissas in{std::vector<int>(kNormExamples * kNormRows * kNormChannels, 93), -3, 8};
  SingleOp op(ops::kGroupNorm, groups_attributes(2), {Shape{kNormRows, kNormChannels}},
              kNormExamples);
  op.set_parameters(norm_parameters());
  const Mantissas found = op.forward({in}, ExponentMode::kFixed, -8, 16);
  for (size_t i = 0; i < found.values.size(); ++i) {
    EXPECT_NEAR(found.values[i], norm_parameters()[1].values[i % kNormChannels] / 32.0, 0.51);
  }
}

// A loud example beside a quiet one.
TEST(GroupNorm, ExamplesDoNotSeeEachOther) {
  Mantissas in = some_mantissas(kNormExamples * kNormRows * kNormChannels, 8, -7, 5);
  for (size_t i = 0; i < kNormRows * kNormChannels; ++i) in.values[i] /= 40;
  const auto result = [&](int64_t examples, int64_t first) {
    SingleOp op(ops::kGroupNorm, groups_attributes(3), {Shape{kNormRows, kNormChannels}}, examples);
    op.set_parameters(norm_parameters());
    const auto begin = in.values.begin() + first * kNormRows * kNormChannels;
    const Mantissas some{
        {begin, begin + examples * kNormRows * kNormChannels}, in.exponent, in.bits};
    return op.forward({some}, ExponentMode::kFixed, -4).values;
  };
  const std::vector<int> all = result(kNormExamples, 0);
  for (int64_t n = 0; n < kNormExamples; ++n) {
    const auto begin = all.begin() + n * kNormRows * kNormChannels;
    EXPECT_EQ(result(1, n), (std::vector<int>(begin, begin + kNormRows * kNormChannels))) << n;
  }
}

TEST(GroupNorm, RefusesGroupsThatDoNotDivideTheChannels) {
  const auto shape = output_shape(ops::kGroupNorm, {{"groups", 4}}, std::vector{Shape{3, 3, 6}});
  ASSERT_FALSE(shape.ok());
  EXPECT_EQ(shape.error().message, "its 4 groups do not divide 6 channels");
}

}  // namespace
}  // namespace mantissa::testing
