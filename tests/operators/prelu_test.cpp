// PReLU: numbers, exponents and widths of values and gradients. Its gradients against the
// definition: gradient_check_test.cpp.
#include <gtest/gtest.h>

#include "tests/operators/single_op.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kSlopeChannels = 3;

// SlopesInUnits, their exponent, and the unit of products: not below 2^-30, not above 1.
struct SlopesInUnits {
  Mantissas slopes;
  int unit;
};

std::vector<SlopesInUnits> slopes_of_all_sizes() {
  return {{{{16384, -16384, 0}, -16, 16}, -16},
          {{{32767, -32767, 1}, -14, 16}, -14},
          {{{32767, -32766, 3}, -33, 16}, -30},
          {{{32767, -5, 1}, 3, 16}, 0}};
}

// In units of 2^unit, to nearest even.
int64_t slope_in(const SlopesInUnits& s, size_t channel) {
  const int shift = s.unit - s.slopes.exponent;
  const int64_t slope = s.slopes.values[channel];
  if (shift <= 0) return slope << -shift;
  const int64_t floor = slope >> shift, rest = slope - (floor << shift);
  const int64_t twice = 2 * rest, one = int64_t{1} << shift;
  return floor + (twice > one || (twice == one && floor % 2 != 0) ? 1 : 0);
}

__int128 slope_factor(const SlopesInUnits& s, int x, size_t i) {
  return x > 0 ? __int128{1} << -s.unit : __int128{slope_in(s, i % kSlopeChannels)};
}

TEST(Prelu, ProductsAreExactAndNarrowedOnce) {
  for (const SlopesInUnits& s : slopes_of_all_sizes()) {
    for (const int bits : {8, 16}) {
      const Mantissas in = some_mantissas(4 * 5 * kSlopeChannels, bits, -7, 1);
      for (const int grad_bits : {8, 16, 32}) {
        const Mantissas grad = some_mantissas(4 * 5 * kSlopeChannels, grad_bits, -17, 3);
        std::vector<__int128> wide, wide_gradient;
        for (size_t i = 0; i < in.values.size(); ++i) {
          wide.push_back(slope_factor(s, in.values[i], i) * in.values[i]);
          wide_gradient.push_back(slope_factor(s, in.values[i], i) * grad.values[i]);
        }
        for (const int threads : {1, 3}) {
          SingleOp op(ops::kPrelu, {}, {Shape{5, kSlopeChannels}}, 4, threads);
          op.set_parameters({s.slopes});
          EXPECT_EQ(op.forward({in}), narrowed(wide, -7 + s.unit, 8));
          EXPECT_EQ(op.forward({in}, ExponentMode::kPredicted, 3), narrowed(wide, -7 + s.unit, 8));
          EXPECT_EQ(op.backward({in}, grad, 16),
                    std::vector{narrowed(wide_gradient, -17 + s.unit, 16)});
        }
      }
    }
  }
}

TEST(Prelu, GradientsOfSlopesAreExactSumsRoundedOnce) {
  constexpr int64_t kManySlopeRows = 70001;  // several pieces of sums
  for (const int grad_bits : {8, 16, 32}) {
    const Mantissas in = some_mantissas(kManySlopeRows * kSlopeChannels, 16, -12, 1);
    const Mantissas grad = some_mantissas(kManySlopeRows * kSlopeChannels, grad_bits, -17, 3);
    std::vector<__int128> sums(kSlopeChannels);
    for (size_t i = 0; i < in.values.size(); ++i) {
      sums[i % kSlopeChannels] += __int128{std::min(in.values[i], 0)} * grad.values[i];
    }
    for (const bool shared : {false, true}) {
      SingleOp op(ops::kPrelu, {{"shared", shared ? 1 : 0}},
                  {Shape{kManySlopeRows, kSlopeChannels}}, 1, 3);
      op.set_parameters({{std::vector<int>(shared ? 1 : kSlopeChannels, 16384), -16, 16}});
      // Here the exponent of the sums is finer than the products', and coarser.
      for (const int shift : {-3, 0, 9}) {
        const auto found = op.backward_weights({in}, grad, -29 + shift);
        std::vector<__int128> wanted = sums;
        if (shared) wanted = {sums[0] + sums[1] + sums[2]};
        ASSERT_EQ(found[0].size(), wanted.size());
        for (size_t i = 0; i < wanted.size(); ++i) {
          const __int128 unit = __int128{1} << std::max(0, shift);
          const __int128 exact = wanted[i] << std::max(0, -shift);
          const __int128 difference = 2 * (__int128{found[0][i]} * unit - exact);
          EXPECT_LE(difference < 0 ? -difference : difference, unit == 1 ? 0 : unit)
              << grad_bits << " " << shared << " " << shift;
        }
      }
    }
  }
}

TEST(Prelu, HasASlopeForEachChannelOrOne) {
  EXPECT_EQ(SingleOp(ops::kPrelu, {}, {Shape{4, 4, 6}}).parameter_shapes()[0], Shape{6});
  EXPECT_EQ(SingleOp(ops::kPrelu, {{"shared", 1}}, {Shape{6}}).parameter_shapes()[0], Shape{1});
}

}  // namespace
}  // namespace mantissa::testing
