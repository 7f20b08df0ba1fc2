// Counts of wide values against what narrowing does to them, and decisions against whole
// histograms.
#include "kernels/bit_counts/wide_counts.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

bool is_clipped(int64_t wide, int shift, int bits) {
  const int64_t rounded = shift_right_rne(wide, shift);
  return saturate(rounded, mantissa_limit(bits)) != rounded;
}

// Magnitudes around the ends of every shift's range, for each width.
TEST(WideCounts, AValueNeedsTheLeastShiftThatDoesNotClipIt) {
  for (int bits = 2; bits <= 32; ++bits) {
    for (int length = 1; length <= 62; ++length) {
      for (const int cut : {0, 1, bits - 2, bits - 1, bits, bits + 1}) {
        const uint64_t ones = (uint64_t{1} << length) - 1;
        const uint64_t edge = cut >= length ? 0 : ones >> cut << cut;
        for (const uint64_t size : {edge - 1, edge, edge + 1}) {
          if (size == 0 || size > uint64_t{1} << 62) continue;
          const auto wide = static_cast<int64_t>(size);
          const int needed = needed_shift(size, bits);
          ASSERT_FALSE(is_clipped(wide, needed, bits)) << size << " " << bits;
          ASSERT_FALSE(is_clipped(-wide, needed, bits)) << size << " " << bits;
          ASSERT_LT(size, least_clipped(needed, bits));
          if (needed == 0) continue;
          ASSERT_TRUE(is_clipped(wide, needed - 1, bits)) << size << " " << bits;
          ASSERT_GE(size, least_clipped(needed - 1, bits));
        }
      }
    }
  }
}

// Values of few sizes, so that many need the same exponent.
std::vector<int64_t> any_values() {
  const auto sizes =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 40)));
  std::vector<int64_t> values;
  for (const int size : sizes) {
    const int64_t value = *rc::gen::inRange<int64_t>(0, 512) << size >> 9;
    const int times = *rc::gen::inRange(1, 50);
    values.insert(values.end(), static_cast<size_t>(times), value % 2 == 0 ? value : -value);
  }
  return values;
}

// Whatever is not looked at decides nothing: over micro-batches, workers and tiles in any order.
RC_GTEST_PROP(WideCounts, DecideAsTheWholeHistogram, ()) {
  const int micro_batches = *rc::gen::inRange(1, 4), workers = *rc::gen::inRange(1, 4);
  const int bits = *rc::gen::element(2, 6, 8, 16), ppm = *rc::gen::inRange(0, 200'001);
  constexpr int kWideExponent = -20;
  NeededExponents counted, whole;
  const std::vector<int64_t> values = any_values();
  const DecisionRule rule{.clipped_ppm = ppm, .micro_batches = micro_batches};
  const auto elements = static_cast<int64_t>(values.size());
  for (int m = 0; m < micro_batches; ++m) {
    const int unit = *rc::gen::inRange(0, 3);  // a micro-batch may have larger values
    const int shift = *rc::gen::inRange(0, 40);
    std::vector<WideCounts> counts(static_cast<size_t>(workers),
                                   WideCounts(bits, shift, rule.most_clipped(elements)));
    uint64_t maximum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t wide = values[i] << unit;
      WideStatistics tile{magnitude(wide), is_clipped(wide, shift, bits) ? 1 : 0};
      WideCounts& worker = counts[i % counts.size()];
      if (worker.wants(tile)) worker.add(&wide, 1);
      maximum = std::max(maximum, tile.maximum);
    }
    const int largest = kWideExponent + exact_shift(maximum, bits);
    counted += maximum == 0 ? NeededExponents{}
                            : needed_exponents(counts, elements, kWideExponent, largest);
    if (maximum == 0) counted.add_zeros(elements);
    for (const int64_t value : values) {
      const uint64_t size = magnitude(value << unit);
      const int needed = size == 0 ? 0 : needed_shift(size, bits);
      if (maximum == 0) {
        whole.add_zeros(1);
      } else {
        whole.add(std::min(kWideExponent + needed, largest), 1);
      }
    }
  }
  RC_ASSERT(counted.elements() == whole.elements());
  RC_ASSERT(counted.decided(ppm, bits) == whole.decided(ppm, bits));
}

TEST(WideCounts, FewValuesAreLookedAt) {
  WideCounts counts(8, 0, 3);
  const std::vector<int32_t> wide(1000, -128);
  counts.add(wide.data(), 1000);
  EXPECT_EQ(counts.floor, 1) << "a shift of 0 clips too many";
  EXPECT_EQ(counts.least, 255u);
  EXPECT_EQ(counts.needing(1), 4) << "the rest does not matter";
  EXPECT_FALSE(counts.wants({254, 1000}));
}

}  // namespace
}  // namespace mantissa::kernels
