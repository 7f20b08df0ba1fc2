// Which rows are chosen, for CPUs that need not be this one: nothing is run.
#include "kernels/kernel_table.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mantissa::kernels {
namespace {

bool has(const KernelTable& table, const ConvolutionKernels& row) {
  return std::count(table.convolution.begin(), table.convolution.end(), &row) == 1;
}

TEST(KernelTable, BeginsWithTheReferences) {
  const KernelTable table = select_kernels(kNeedsNothing);
  EXPECT_EQ(table.convolution.front(), &kConvolutionReference);
  EXPECT_EQ(table.elementwise, &kElementwiseReference);
  EXPECT_EQ(table.batch_norm, &kBatchNormReference);
  EXPECT_EQ(table.pooling, &kPoolingReference);
  EXPECT_EQ(table.softmax, &kSoftmaxReference);
  EXPECT_EQ(table.squared_error, &kSquaredErrorReference);
  EXPECT_EQ(table.update, &kUpdateReference);
  EXPECT_EQ(table.rounding, &kRoundingReference);
  EXPECT_EQ(table.bit_counts, &kBitCountsReference);
  EXPECT_EQ(table.wide, &kWideReference);
  EXPECT_EQ(table.rescale, &kRescaleReference);
  EXPECT_EQ(table.peak, &kPeakReference);
  for (const ConvolutionKernels* row : table.convolution) EXPECT_TRUE(row->needs.empty());
}

TEST(KernelTable, OfThisCpuNeedsNoMoreThanItHas) {
  for (const Isa isa : kAllIsas) {
    const KernelTable table = select_kernels(isa);
    const Features allowed = features_of(isa) & cpu_features();
    EXPECT_TRUE(allowed.contains(table.pooling->needs)) << isa_name(isa);
    EXPECT_TRUE(allowed.contains(table.peak->needs)) << isa_name(isa);
    for (const ConvolutionKernels* row : table.convolution) {
      EXPECT_TRUE(allowed.contains(row->needs)) << isa_name(isa) << " " << row->name;
    }
  }
}

#if defined(__x86_64__)
TEST(KernelTable, Avx512VnniNeedsNoAvxVnni) {
  const KernelTable table = select_kernels(kNeedsAvx512Vnni);
  EXPECT_TRUE(has(table, kConvolutionAvx512Vnni));
  EXPECT_TRUE(has(table, kConvolutionAvx2));
  EXPECT_FALSE(has(table, kConvolutionAvxVnni));
  EXPECT_FALSE(has(table, kConvolutionAmx));
  EXPECT_EQ(table.pooling, &kPoolingAvx512Vnni);
  EXPECT_EQ(table.peak, &kPeakAvx512Vnni);
}

TEST(KernelTable, AvxVnniNeedsNoAvx512) {
  const KernelTable table = select_kernels(kNeedsAvxVnni);
  EXPECT_TRUE(has(table, kConvolutionAvxVnni));
  EXPECT_FALSE(has(table, kConvolutionAvx512Vnni));
  EXPECT_EQ(table.pooling, &kPoolingAvx2);
  EXPECT_EQ(table.peak, &kPeakAvxVnni);
}

// AVX-512 without VNNI has no rows.
TEST(KernelTable, EveryFeatureOfARowMustBeThere) {
  const KernelTable table = select_kernels(Features{Feature::kAvx2, Feature::kAvx512});
  EXPECT_EQ(table.pooling, &kPoolingAvx2);
  EXPECT_TRUE(has(table, kConvolutionAvx2));
  EXPECT_FALSE(has(table, kConvolutionAvx512Vnni));
}
#endif

}  // namespace
}  // namespace mantissa::kernels
