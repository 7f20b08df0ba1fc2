// Every instruction set against the reference, at the largest sums that blocks allow.
#include "kernels/row_products/row_products.h"

#include <gtest/gtest.h>

#include "kernels/elementwise/test_values.h"
#include "kernels/test_rows.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

class RowProductRows : public RowTest<RowProductKernels> {};

void check(const RowProductKernels& kernels, const std::vector<int16_t>& rows,
           const std::vector<int16_t>& vector, int64_t block) {
  const auto width = std::ssize(vector), count = std::ssize(rows) / std::max<int64_t>(1, width);
  const RowProducts args{rows.data(), vector.data(), count, width, block};
  std::vector<int64_t> got(count, -1), wanted(count, -2);
  kernels.multiply(args, got.data());
  kRowProductsReference.multiply(args, wanted.data());
  ASSERT_EQ(got, wanted) << width << " wide, blocks of " << block;
}

TEST_P(RowProductRows, EqualTheReference) {
  for (const int64_t width : {1, 2, 15, 16, 17, 64, 255, 511, 512, 513, 2000}) {
    for (const auto& [row_bits, vector_bits] : {std::pair{7, 15}, {7, 7}, {15, 15}, {15, 7}}) {
      const int64_t block = block_of(row_bits, vector_bits);
      check(*GetParam(), test_values<int16_t>(width * 5, 3, row_bits),
            test_values<int16_t>(width, 4, vector_bits), block);
      const auto largest = [](int bits) { return static_cast<int16_t>(mantissa_limit(bits + 1)); };
      const std::vector<int16_t> rows(width * 2, static_cast<int16_t>(-largest(row_bits)));
      check(*GetParam(), rows, std::vector<int16_t>(width, largest(vector_bits)), block);
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
