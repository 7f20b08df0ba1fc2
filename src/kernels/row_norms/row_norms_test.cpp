// The reference against its definition in 128 bits and long double, and every instruction set
// against the reference.
#include "kernels/row_norms/row_norms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/common/test_rows.h"
#include "kernels/elementwise/test_values.h"
#include "kernels/row_norms/elements.h"
#include "numerics/real.h"
#include "numerics/rounding.h"
#include "scalars/row_norm.h"

namespace mantissa::kernels {
namespace {

// A row of mantissas of `bits` bits, in the type that keeps them.
class Row {
 public:
  Row(int64_t count, int bits, uint64_t seed)
      : bits_(bits), words_(test_values<int32_t>(count, seed, bits - 1)) {
    for (int32_t& n : words_) n = static_cast<int32_t>(saturate(n, mantissa_limit(bits)));
    halves_.assign(words_.begin(), words_.end());
    bytes_.assign(words_.begin(), words_.end());
  }
  ConstMantissaSpan span() const {
    return bits_ <= 8    ? ConstMantissaSpan{bytes_.data(), bits_}
           : bits_ <= 16 ? ConstMantissaSpan{halves_.data(), bits_}
                         : ConstMantissaSpan{words_.data(), bits_};
  }
  const std::vector<int32_t>& numbers() const { return words_; }

 private:
  int bits_;
  std::vector<int32_t> words_;
  std::vector<int16_t> halves_;
  std::vector<int8_t> bytes_;
};

// The norm of a row, with an epsilon of a unit.
RowNorm norm_of(const RowNormKernels& kernels, const Row& row, bool centred) {
  const auto channels = std::ssize(row.numbers());
  return ref_row_norm(kernels.sums(row.span(), channels), channels, centred, Real(1).plain());
}

struct Results {
  std::vector<int32_t> x;
  std::vector<int64_t> scaled, unshifted, gradient, of_scale, of_offset;
  bool operator==(const Results&) const = default;
};

Results results(const RowNormKernels& kernels, const Row& row, const Row& dy, bool centred,
                int shift) {
  const auto channels = std::ssize(row.numbers());
  const auto count = static_cast<size_t>(channels);
  const auto scale = test_values<int16_t>(channels, 5, 15);
  const auto offset = test_values<int64_t>(channels, 6, 50);
  const RowNorm norm = norm_of(kernels, row, centred);
  Results r{std::vector<int32_t>(count),    std::vector<int64_t>(count),
            std::vector<int64_t>(count),    std::vector<int64_t>(count),
            std::vector<int64_t>(count, 3), std::vector<int64_t>(count, -3)};
  kernels.normalise(row.span(), norm, channels, r.x.data());
  kernels.scale(r.x.data(), scale.data(), offset.data(), channels, r.scaled.data());
  kernels.scale(r.x.data(), scale.data(), nullptr, channels, r.unshifted.data());
  const RowNormGradient args{r.x.data(), scale.data(), centred, norm.factor, shift};
  kernels.gradient(args, dy.span(), channels, r.gradient.data());
  if (dy.span().bits <= 16) {
    kernels.add_gradients(r.x.data(), dy.span(), channels, r.of_scale.data(), r.of_offset.data());
  }
  return r;
}

// By the arithmetic of doubles, from exact sums: of ordinary rows, of zeros and of the widest.
TEST(RowNorms, FactorsByTheirDefinition) {
  for (const int64_t channels : {1, 2, 37, 768, 4096}) {
    for (const int64_t n : {0, 1, 12, 32767}) {
      for (const double epsilon : {1e-30, 0.37, 1e-5 * 4096 * 4096, 0x1p70}) {
        for (const bool centred : {false, true}) {
          const RowSums sums = {.sum = n * (channels - 1), .squares = n * n * channels};
          const int64_t sum = centred ? sums.sum : 0;
          const double spread = static_cast<double>(channels * sums.squares - sum * sum) + epsilon;
          const Real factor(1 / std::sqrt(spread));
          const RowNorm norm = ref_row_norm(sums, channels, centred, Real(epsilon).plain());
          ASSERT_EQ(norm.sum, sum);
          ASSERT_EQ(norm.shift, fixed_point_shift(factor, kNormFactorBits)) << spread;
          ASSERT_EQ(norm.factor, to_fixed_point(factor, norm.shift, INT32_MAX)) << spread;
        }
      }
    }
  }
}

TEST(RowNorms, HaveMeanZeroAndDeviationOne) {
  const Row row(300, 12, 1);
  const RowNorm norm = norm_of(kRowNormsReference, row, true);
  std::vector<int32_t> x(300);
  kRowNormsReference.normalise(row.span(), norm, 300, x.data());
  double sum = 0, squares = 0;
  for (const int32_t n : x) {
    sum += std::ldexp(n, -kNormFraction);
    squares += std::pow(std::ldexp(n, -kNormFraction), 2);
  }
  EXPECT_NEAR(sum, 0, 1e-4);
  EXPECT_NEAR(squares, 300, 1e-3);
}

// Exact, except for two roundings of half a unit each.
TEST(RowNorms, GradientByItsDefinition) {
  constexpr int64_t kChannels = 37;
  const Row row(kChannels, 12, 1), dy(kChannels, 16, 2);
  for (const bool centred : {false, true}) {
    const Results r = results(kRowNormsReference, row, dy, centred, 40);
    const auto scale = test_values<int16_t>(kChannels, 5, 15);
    const RowNorm norm = norm_of(kRowNormsReference, row, centred);
    long double sum = 0, sum_x = 0;
    for (int64_t i = 0; i < kChannels; ++i) {
      const long double d = static_cast<long double>(dy.numbers()[i]) * scale[i];
      if (centred) sum += d;
      sum_x += d * ldexpl(r.x[i], -kNormFraction);
    }
    for (int64_t i = 0; i < kChannels; ++i) {
      const long double d = static_cast<long double>(dy.numbers()[i]) * scale[i];
      const long double wide = kChannels * d - sum - ldexpl(r.x[i], -kNormFraction) * sum_x;
      ASSERT_NEAR(static_cast<double>(r.gradient[i]),
                  static_cast<double>(ldexpl(wide * norm.factor, -40)), 0.51);
    }
  }
}

// The reference splits its factors, elements.h computes in 128 bits.
TEST(RowNorms, GradientsAreThoseOf128Bits) {
  for (const int64_t channels : {1, 7, 768, 4096}) {
    for (const int grad_bits : {8, 16, 24, 32}) {
      const Row row(channels, 16, 3), dy(channels, grad_bits, 4);
      const auto scale = test_values<int16_t>(channels, 5, 15);
      for (const bool centred : {false, true}) {
        const RowNorm norm = norm_of(kRowNormsReference, row, centred);
        std::vector<int32_t> x(channels);
        kRowNormsReference.normalise(row.span(), norm, channels, x.data());
        for (const int shift : {38, 47, 60, 91, 92, 100}) {
          const RowNormGradient args{x.data(), scale.data(), centred, norm.factor, shift};
          std::vector<int64_t> got(channels), wanted(channels);
          kRowNormsReference.gradient(args, dy.span(), channels, got.data());
          with_wide_gradient_type(grad_bits, [&](auto type) {
            const auto* grads = dy.span().as<decltype(type)>();
            const GradientTotals totals = totals_from(args, grads, 0, channels, {});
            gradient_from(args, totals, grads, 0, channels, channels, wanted.data());
          });
          ASSERT_EQ(got, wanted) << channels << ", " << grad_bits << ", " << shift;
        }
      }
    }
  }
}

class RowNormRows : public RowTest<RowNormKernels> {};

TEST_P(RowNormRows, EqualTheReference) {
  for (const int64_t channels : {1, 7, 8, 64, 100, 768, 4096}) {
    for (const int bits : {8, 16}) {
      for (const int grad_bits : {8, 16, 24}) {
        for (const int shift : {30, 31, 47, 79, 100}) {
          for (const bool centred : {false, true}) {
            const Row row(channels, bits, 1), dy(channels, grad_bits, 2);
            ASSERT_EQ(results(*GetParam(), row, dy, centred, shift),
                      results(kRowNormsReference, row, dy, centred, shift))
                << channels << ", " << bits << ", " << grad_bits << ", " << shift;
          }
        }
      }
    }
  }
}

// Gradients that are multiples of a half, so that ties occur; and the largest gradients of all.
TEST_P(RowNormRows, TiesAndLargestNumbersEqualTheReference) {
  for (const int64_t channels : {16, 4096}) {
    std::vector<int32_t> x(channels);
    std::vector<int16_t> dy(channels), scale(channels, 32767);
    const auto root = static_cast<int32_t>(std::sqrt(channels));
    for (int64_t i = 0; i < channels; ++i) {
      x[i] = i == 0 ? root << kNormFraction : static_cast<int32_t>(i % 3 - 1) << 23;
      dy[i] = static_cast<int16_t>(i == 0 ? 32767 : i % 5 - 2);
    }
    for (const int32_t factor : {1 << 30, 3 << 29, INT32_MAX}) {
      for (const int shift : {30, 31, 48}) {
        const RowNormGradient args{x.data(), scale.data(), true, factor, shift};
        std::vector<int64_t> got(channels), wanted(channels);
        GetParam()->gradient(args, {dy.data(), 16}, channels, got.data());
        kRowNormsReference.gradient(args, {dy.data(), 16}, channels, wanted.data());
        ASSERT_EQ(got, wanted) << channels << ", " << factor << ", " << shift;
      }
    }
  }
}

#if defined(__x86_64__)
INSTANTIATE_TEST_SUITE_P(Rows, RowNormRows, testing::Values(&kRowNormsAvx2, &kRowNormsAvx512Vnni),
                         row_name);
#else
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RowNormRows);
#endif

}  // namespace
}  // namespace mantissa::kernels
