// Common to the tests of batch norm: the rows of the family as parameters, and awkward operands.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "kernels/batch_norm/batch_norm.h"
#include "kernels/common/test_rows.h"

namespace mantissa::kernels {

template <typename T>
constexpr int kBitsOf = 8 * int{sizeof(T)};

// Besides kAwkwardChannels: divisors and multiples of a vector, and neither.
inline constexpr int64_t kOtherChannels[] = {2, 6, 8, 20, 24, 33, 48, 96, 144, 600};

// The largest multiplier whose upper half of 16 bits is one, the next, and the largest of all.
inline constexpr int32_t kLargeMultipliers[] = {0x7fff7fff, 0x7fff8000, 0x7fffffff};

class BatchNormRow : public RowTest<BatchNormKernels> {};

inline void expect_equal(const WideStatistics& got, const WideStatistics& wanted) {
  EXPECT_EQ(got.maximum, wanted.maximum);
  EXPECT_EQ(got.saturated, wanted.saturated);
}

#if defined(__x86_64__)
#define MANTISSA_BATCH_NORM_ROWS \
  testing::Values(&kBatchNormReference, &kBatchNormAvx2, &kBatchNormAvx512Vnni)
#else
#define MANTISSA_BATCH_NORM_ROWS testing::Values(&kBatchNormReference)
#endif

}  // namespace mantissa::kernels
