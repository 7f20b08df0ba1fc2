#include "kernels/blocks/blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>
#include <vector>

#include "kernels/common/test_rows.h"
#include "numerics/exponent.h"

namespace mantissa::kernels {
namespace {

constexpr RefBlockKind kKinds[] = {REF_Q4_0,   REF_Q4_1,  REF_Q8_0,  REF_W4G64,
                                   REF_W4G128, REF_W3G32, REF_W3G64, REF_W3G128};

// A float16 by its definition.
double half_number(const uint8_t* bytes) {
  const int bits = bytes[0] | bytes[1] << 8, exponent = bits >> 10 & 31;
  const double fraction = bits & 1023;
  const double size = exponent == 0 ? std::ldexp(fraction, -24)
                                    : std::ldexp(1 + fraction / 1024, exponent - 15);
  return bits >> 15 != 0 ? -size : size;
}

// A weight by its definition: exact in double.
double weight_of(const uint8_t* block, RefBlockKind kind, int64_t i) {
  const double scale = half_number(block);
  if (kind == REF_Q8_0) return scale * static_cast<int8_t>(block[2 + i]);
  if (kind >= REF_W3G32) {
    const uint8_t* q = block + 2 + i / 32 * 12;
    const int64_t own = i % 32;
    const int low = q[own % 8] >> 2 * (own / 8) & 3, third = q[8 + own % 4] >> own / 4 & 1;
    return scale * (low + 4 * third - 4);
  }
  const uint8_t* q = block + (kind == REF_Q4_1 ? 4 : 2) + i / 32 * 16;
  const int four = i % 32 < 16 ? q[i % 16] & 15 : q[i % 16] >> 4;
  return kind == REF_Q4_1 ? scale * four + half_number(block + 2) : scale * (four - 8);
}

// Random blocks whose float16 have exponents from `least` to `most`, of 0 to 30.
std::vector<uint8_t> random_blocks(RefBlockKind kind, int64_t count, int least, int most,
                                   std::mt19937& random) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count * ref_block_bytes(kind)));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  std::uniform_int_distribution<int> exponent(least, most);
  for (int64_t b = 0; b < count; ++b) {
    for (const int at : {1, 3}) {
      if (at == 3 && kind != REF_Q4_1) continue;
      uint8_t& high = bytes[static_cast<size_t>(b * ref_block_bytes(kind) + at)];
      high = static_cast<uint8_t>((high & 0x83) | exponent(random) << 2);
    }
  }
  return bytes;
}

using BlocksTest = RowTest<BlockKernels>;

TEST_P(BlocksTest, IsWhatTheDefinitionSays) {
  std::mt19937 random(1);
  constexpr int64_t kRows = 9;
  constexpr std::pair<int, int> kRanges[] = {{0, 0}, {0, 3}, {5, 9}, {9, 12}, {12, 20}, {0, 30}};
  for (const RefBlockKind kind : kKinds) {
    for (const int64_t count : {1, 2, 3, 15, 16, 17, 18, 33}) {
      for (const auto& [least, most] : kRanges) {
        const auto blocks = random_blocks(kind, kRows * count, least, most, random);
        const int64_t row_bytes = count * ref_block_bytes(kind);
        std::vector<int16_t> exponents;
        std::vector<int8_t> expected;
        for (int64_t row = 0; row < kRows; ++row) {
          const uint8_t* from = blocks.data() + row * row_bytes;
          const uint64_t largest = ref_largest_of_blocks(from, kind, count);
          // The row's own exponent, and larger ones.
          const int own = largest == 0 ? -15 : bit_length(largest) + REF_BLOCK_UNIT - 7;
          exponents.push_back(static_cast<int16_t>(own + row % 4));
          const int64_t own_weights = ref_weights_of_block(kind);
          for (int64_t i = 0; i < count * own_weights; ++i) {
            const double weight =
                weight_of(from + i / own_weights * ref_block_bytes(kind), kind, i % own_weights);
            const double rounded = std::nearbyint(std::ldexp(weight, -exponents.back()));
            expected.push_back(static_cast<int8_t>(std::clamp(rounded, -127.0, 127.0)));
          }
        }
        std::vector<int8_t> out(expected.size(), int8_t{99});
        const ExpandBlocks args{.blocks = blocks.data(),
                                .row_bytes = row_bytes,
                                .kind = kind,
                                .count = count,
                                .exponents = exponents.data(),
                                .out = out.data()};
        GetParam()->expand(args, 0, 4);
        GetParam()->expand(args, 4, kRows);
        EXPECT_EQ(out, expected) << kind << " " << count << " " << least << " " << most;
      }
    }
  }
}

TEST_P(BlocksTest, HaveTheBytesOfTheirBits) {
  const std::tuple<RefBlockKind, int64_t, int64_t> kSizes[] = {
      {REF_Q4_0, 32, 18},   {REF_Q4_1, 32, 20},   {REF_Q8_0, 32, 34},  {REF_W4G64, 64, 34},
      {REF_W4G128, 128, 66}, {REF_W3G32, 32, 14}, {REF_W3G64, 64, 26}, {REF_W3G128, 128, 50}};
  for (const auto& [kind, weights, bytes] : kSizes) {
    EXPECT_EQ(ref_weights_of_block(kind), weights);
    EXPECT_EQ(ref_block_bytes(kind), bytes);
  }
}

TEST_P(BlocksTest, TakesSomeBlocksOfEachRow) {
  std::mt19937 random(2);
  constexpr int64_t kRows = 5, kBlocks = 6, kFirst = 1, kCount = 3;
  for (const RefBlockKind kind : kKinds) {
    const auto blocks = random_blocks(kind, kRows * kBlocks, 6, 9, random);
    const std::vector<int16_t> exponents(kRows, -6);
    const int64_t own_weights = ref_weights_of_block(kind);
    std::vector<int8_t> all(static_cast<size_t>(kRows * kBlocks * own_weights));
    std::vector<int8_t> some(static_cast<size_t>(kRows * kCount * own_weights));
    ExpandBlocks args{.blocks = blocks.data(),
                      .row_bytes = kBlocks * ref_block_bytes(kind),
                      .kind = kind,
                      .count = kBlocks,
                      .exponents = exponents.data(),
                      .out = all.data()};
    GetParam()->expand(args, 0, kRows);
    args.blocks += kFirst * ref_block_bytes(kind);
    args.count = kCount;
    args.out = some.data();
    GetParam()->expand(args, 0, kRows);
    for (int64_t row = 0; row < kRows; ++row) {
      const auto from = all.begin() + (row * kBlocks + kFirst) * own_weights;
      EXPECT_TRUE(std::equal(from, from + kCount * own_weights,
                             some.begin() + row * kCount * own_weights));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, BlocksTest,
                         ::testing::Values(&kBlocksReference
#if defined(__x86_64__)
                                           ,
                                           &kBlocksAvx2, &kBlocksAvx512Vnni
#endif
                                           ),
                         row_name);

}  // namespace
}  // namespace mantissa::kernels
