// The fast rows equal the reference, and the reference equals the definition. Statistics of a
// written block equal the statistics of its wide values.
#include "kernels/bit_counts/bit_counts.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "kernels/bit_counts/written_block.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

std::vector<const BitCountKernels*> rows() {
  std::vector<const BitCountKernels*> rows = {&kBitCountsReference};
#if defined(__x86_64__)
  if (is_supported(Isa::kAvx2)) rows.push_back(&kBitCountsAvx2);
  if (is_supported(Isa::kAvx512Vnni)) rows.push_back(&kBitCountsAvx512Vnni);
#endif
  return rows;
}

// Mantissas of all sizes, and many of the largest.
template <typename T>
std::vector<T> mantissas(int bits, int64_t count) {
  std::vector<T> result;
  const int64_t limit = mantissa_limit(bits);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t random = random_bits(3, RandomStream::kShuffle, 0, static_cast<uint64_t>(i));
    const int64_t size =
        random % 5 == 0 ? limit : (limit >> (random / 8 % static_cast<uint64_t>(bits)));
    result.push_back(static_cast<T>(random % 2 == 0 ? size : -size));
  }
  return result;
}

// The largest count that the counters of vectors can hold.
TEST(BitCounts, AllRowsCountWhereAllAreLarge) {
  const std::vector<int16_t> in(70'000, 32767);
  for (const BitCountKernels* row : rows()) {
    LargeCounts large = {};
    row->count_large({in.data(), 16}, 0, 70'000, large);
    EXPECT_EQ(large, (LargeCounts{70'000, 70'000, 70'000, 70'000})) << row->name;
  }
}

TEST(BitCounts, AllRowsCountByTheDefinition) {
  for (const int bits : {2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 32}) {
    for (const int64_t count : {0, 1, 31, 32, 33, 127, 5000, 40'000}) {
      with_wide_gradient_type(bits, [&](auto type) {
        const auto in = mantissas<decltype(type)>(bits, count);
        LargeCounts expected = {5, 6, 7, 8};  // new counts are added to these
        const int64_t begin = count / 3;
        for (int64_t i = begin; i < count; ++i) {
          for (int k = 0; k < kFinerExponents; ++k) {
            // Whether it fits b - 1 - k bits.
            const int64_t limit = std::max<int64_t>(0, (int64_t{1} << bits >> (k + 2)) - 1);
            expected[static_cast<size_t>(k)] +=
                std::abs(int64_t{in[static_cast<size_t>(i)]}) > limit;
          }
        }
        for (const BitCountKernels* row : rows()) {
          LargeCounts large = {5, 6, 7, 8};
          row->count_large({in.data(), bits}, begin, count, large);
          EXPECT_EQ(large, expected) << row->name << " " << bits << " " << count;
        }
      });
    }
  }
}

// Narrows wide values to an exponent. Counts must be right for the wide values, up to the rounding.
TEST(BitCounts, StatisticsAreAboutTheDecidedExponent) {
  constexpr int kBits = 8;
  const std::vector<int64_t> wide = {0, 1, 3, 60, 64, 127, 128, 500, 4000, 65'000};
  ThreadPool pool(2);
  for (const int wide_exponent : {-3, 0, 2}) {
    for (int decided = wide_exponent - 6; decided < wide_exponent + 12; ++decided) {
      const int written = std::max(decided, wide_exponent);
      std::vector<int8_t> narrow;
      WideStatistics found;
      BitStatistics expected;
      for (const int64_t value : wide) {
        const int64_t rounded = rescale_rne(value, written - wide_exponent);
        const int64_t clipped = saturate(rounded, 127);
        narrow.push_back(static_cast<int8_t>(clipped));
        found += {magnitude(value), clipped != rounded};
        int needed = written + 1;
        if (clipped == rounded) {
          needed = written - std::min(kFinerExponents, 7 - bit_length(magnitude(clipped)));
        }
        if (needed == written - kFinerExponents) needed = std::min(needed, decided);
        count_needed(expected, decided, needed, 1);
      }
      const int largest = exact_exponent(found.maximum, wide_exponent, kBits);
      expected.largest_exponent = largest;
      const auto count = static_cast<int64_t>(wide.size());
      const LargeCounts large =
          count_block(kBitCountsReference, pool, {narrow.data(), kBits}, count);
      const BitStatistics statistics =
          bit_statistics(large, count, {decided, written, largest}, found.saturated);
      EXPECT_EQ(statistics, expected) << decided << " " << wide_exponent;
    }
  }
}

}  // namespace
}  // namespace mantissa::kernels
