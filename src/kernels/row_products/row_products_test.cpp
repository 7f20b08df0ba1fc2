// The reference against sums in 128 bits, and every instruction set against the reference.
#include "kernels/row_products/row_products.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/common/test_rows.h"
#include "kernels/elementwise/test_values.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

// Rows of an input and of weights, with the largest numbers among them.
class Subject {
 public:
  Subject(int64_t rows, int64_t channels, int64_t depth, int bits, bool largest)
      : wide_(test_values<int16_t>(rows * depth, 1, bits - 1)),
        weights_(test_values<int8_t>(channels * depth, 2, 7)) {
    for (int16_t& n : wide_) n = static_cast<int16_t>(saturate(n, mantissa_limit(bits)));
    if (largest) {
      std::fill(wide_.begin(), wide_.end(), static_cast<int16_t>(-mantissa_limit(bits)));
      std::fill(weights_.begin(), weights_.end(), int8_t{-128});
    }
    narrow_.assign(wide_.begin(), wide_.end());
    products_ = {.input = {bits <= 8 ? static_cast<const void*>(narrow_.data()) : wide_.data(),
                           bits},
                 .weights = weights_.data(),
                 .rows = rows,
                 .channels = channels,
                 .depth = depth};
  }

  // The sums of the channels [begin, end); the others are -7.
  std::vector<int64_t> sums(const RowProductKernels& kernels, int64_t begin, int64_t end) {
    const int64_t count = products_.rows * products_.channels;
    std::vector<int32_t> narrow(count, -7);
    std::vector<int64_t> wide(count, -7);
    const bool is_narrow = products_.input.bits <= 8;
    products_.sums = is_narrow ? static_cast<void*>(narrow.data()) : wide.data();
    kernels.multiply(products_, begin, end);
    return is_narrow ? std::vector<int64_t>(narrow.begin(), narrow.end()) : wide;
  }

  int64_t exact(int64_t row, int64_t channel) const {
    __int128 sum = 0;
    for (int64_t c = 0; c < products_.depth; ++c) {
      sum += wide_[row * products_.depth + c] * weights_[channel * products_.depth + c];
    }
    return static_cast<int64_t>(sum);
  }

 private:
  std::vector<int16_t> wide_;
  std::vector<int8_t> weights_, narrow_;
  RowProducts products_;
};

TEST(RowProducts, AreSumsOfProducts) {
  for (const int bits : {4, 8, 16}) {
    Subject subject(2, 5, 37, bits, false);
    const auto sums = subject.sums(kRowProductsReference, 0, 5);
    for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(sums[i], subject.exact(i / 5, i % 5));
  }
}

class RowProductRows : public RowTest<RowProductKernels> {};

TEST_P(RowProductRows, EqualTheReference) {
  for (const int bits : {8, 12, 16}) {
    for (const int64_t depth : {1, 31, 32, 64, 100, 576, 4096, 4099, 9000}) {
      for (const int64_t channels : {1, 7, 16, 33}) {
        for (const int64_t rows : {1, 3}) {
          Subject subject(rows, channels, depth, bits, false);
          const int64_t begin = channels / 3;
          ASSERT_EQ(subject.sums(*GetParam(), begin, channels),
                    subject.sums(kRowProductsReference, begin, channels))
              << rows << "x" << channels << "x" << depth << ", " << bits << " bits";
        }
      }
    }
  }
}

TEST_P(RowProductRows, LargestSumsEqualTheReference) {
  for (const int bits : {8, 16}) {
    for (const int64_t depth : {4096, 65'000}) {
      Subject subject(1, 18, depth, bits, true);
      const auto sums = subject.sums(*GetParam(), 0, 18);
      ASSERT_EQ(sums, subject.sums(kRowProductsReference, 0, 18));
      ASSERT_EQ(sums[17], depth * 128 * mantissa_limit(bits));
    }
  }
}

#if defined(__x86_64__)
INSTANTIATE_TEST_SUITE_P(Rows, RowProductRows,
                         testing::Values(&kRowProductsAvx2, &kRowProductsAvx512Vnni), row_name);
#else
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RowProductRows);
#endif

}  // namespace
}  // namespace mantissa::kernels
