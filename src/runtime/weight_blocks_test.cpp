#include "runtime/weight_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace mantissa {
namespace {

std::vector<double> some_numbers(size_t count, double scale, double offset = 0) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<double> numbers;
  for (size_t i = 0; i < count; ++i) numbers.push_back(offset + scale * unit(random));
  return numbers;
}

TEST(WeightBlocks, KindsAreTensorsOfBytes) {
  const auto kind = [](DataType type, std::vector<int64_t> shape) {
    return block_kind_of(type, shape);
  };
  EXPECT_EQ(kind(DataType::kUint8, {4, 2, 18}), BlockKind::kQ4_0);
  EXPECT_EQ(kind(DataType::kUint8, {4, 2, 20}), BlockKind::kQ4_1);
  EXPECT_EQ(kind(DataType::kUint8, {4, 2, 34}), BlockKind::kQ8_0);
  EXPECT_EQ(kind(DataType::kUint8, {4, 2, 22}), BlockKind::kNone);
  EXPECT_EQ(kind(DataType::kUint8, {4, 2, 17, 2}), BlockKind::kW4G64);
  EXPECT_EQ(kind(DataType::kUint8, {4, 2, 33, 2}), BlockKind::kW4G128);
  EXPECT_EQ(kind(DataType::kUint8, {4, 2, 7, 2}), BlockKind::kW3G32);
  EXPECT_EQ(kind(DataType::kUint8, {4, 2, 13, 2}), BlockKind::kW3G64);
  EXPECT_EQ(kind(DataType::kUint8, {4, 2, 25, 2}), BlockKind::kW3G128);
  EXPECT_EQ(kind(DataType::kUint8, {4, 2, 9, 2}), BlockKind::kNone);
  for (const BlockKind each : kBlockKinds) {
    EXPECT_EQ(kind(DataType::kUint8, block_dims(each, 4, 256)), each);
  }
  EXPECT_EQ(kind(DataType::kInt8, {4, 2, 18}), BlockKind::kNone);
  EXPECT_EQ(kind(DataType::kUint8, {8, 18}), BlockKind::kNone);
}

TEST(WeightBlocks, PackedNumbersAreNearTheirOwn) {
  for (const double scale : {0.02, 1.0, 300.0}) {
    for (const double offset : {0.0, 3 * scale}) {
      const std::vector<double> numbers = some_numbers(384, scale, offset);
      const double range = 2 * scale, largest = scale + offset;
      for (const BlockKind kind : kBlockKinds) {
        const auto blocks = packed_blocks(kind, numbers);
        ASSERT_EQ(std::ssize(blocks), bytes_in_blocks(kind, 384));
        EXPECT_TRUE(has_finite_scales(kind, blocks));
        const std::vector<double> again = block_numbers(kind, blocks);
        // Half a step, the last step that most kinds lack above 0, and the rounding of the scales.
        const double step = kind == BlockKind::kQ8_0   ? largest / 127
                            : kind == BlockKind::kQ4_1 ? range / 15
                                                       : 2 * largest / -block_steps(kind).low;
        const double bound = step / 2 + largest * 0x1p-8;
        for (size_t i = 0; i < numbers.size(); ++i) {
          EXPECT_LE(std::abs(numbers[i] - again[i]), bound) << block_kind_name(kind);
        }
        EXPECT_EQ(block_numbers(kind, packed_blocks(kind, again)).size(), again.size());
      }
    }
  }
}

TEST(WeightBlocks, ScalesAreTheNearestFloat16) {
  // The largest number of a block of q8_0 is 127 d.
  const std::pair<double, uint16_t> kCases[] = {
      {1, 0x3c00},           {0.333251953125, 0x3555}, {65504, 0x7bff},  {0x1p-24, 0x0001},
      {0x1p-14, 0x0400},     {0x1.ff8p-15, 0x03ff},    {0x1.ffep-15, 0x0400},
      {1 + 0x1p-11, 0x3c00}, {1 + 0x3p-11, 0x3c02},    {0x1.ffep0, 0x4000}, {0, 0}};
  for (const auto& [number, bits] : kCases) {
    std::vector<double> numbers(32, 0);
    numbers[7] = -127 * number;
    const auto blocks = packed_blocks(BlockKind::kQ8_0, numbers);
    EXPECT_EQ(static_cast<int>(blocks[0]) | static_cast<int>(blocks[1]) << 8, bits) << number;
  }
}

TEST(WeightBlocks, ScalesThatAreNotFiniteAreFound) {
  for (const BlockKind kind : kBlockKinds) {
    auto blocks = packed_blocks(kind, some_numbers(256, 1));
    blocks[static_cast<size_t>(block_bytes(kind)) + 1] = std::byte{0xfc};
    EXPECT_FALSE(has_finite_scales(kind, blocks));
  }
  auto blocks = packed_blocks(BlockKind::kQ4_1, some_numbers(256, 1));
  blocks[3] = std::byte{0x7e};
  EXPECT_FALSE(has_finite_scales(BlockKind::kQ4_1, blocks));
}

TEST(WeightBlocks, StepsOfGridsComeBack) {
  std::mt19937 random(5);
  for (const BlockKind kind : kBlockKinds) {
    const BlockSteps range = block_steps(kind);
    const BlockGrid kGrids[] = {{0x1p-7, 0}, {-0x1.8p-3, 0}, {0, 0}, {65504, 0}};
    std::vector<BlockGrid> grids(std::begin(kGrids), std::end(kGrids));
    if (kind == BlockKind::kQ4_1) {
      for (BlockGrid& grid : grids) grid.least = 0x1.4p-2;
      grids.push_back({0x1p-24, -65504});
    }
    std::vector<int8_t> steps;
    const auto count = static_cast<size_t>(block_weights(kind));
    for (size_t i = 0; i < grids.size() * count; ++i) {
      const auto span = static_cast<unsigned>(range.high - range.low + 1);
      steps.push_back(static_cast<int8_t>(range.low + static_cast<int>(random() % span)));
    }
    const std::vector<double> numbers = block_numbers(kind, packed_blocks(kind, grids, steps));
    ASSERT_EQ(numbers.size(), steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_EQ(numbers[i], block_number(steps[i], grids[i / count]))
          << block_kind_name(kind) << " " << i;
    }
  }
}

TEST(WeightBlocks, GroupsAreTheSameNumbersInQ4_0) {
  for (const BlockKind kind : {BlockKind::kQ4_0, BlockKind::kW4G64, BlockKind::kW4G128,
                               BlockKind::kW3G32, BlockKind::kW3G64, BlockKind::kW3G128}) {
    const auto blocks = packed_blocks(kind, some_numbers(512, 0.3));
    const auto as_others = as_q4_0(kind, blocks);
    EXPECT_EQ(std::ssize(as_others), bytes_in_blocks(BlockKind::kQ4_0, 512));
    EXPECT_EQ(block_numbers(BlockKind::kQ4_0, as_others), block_numbers(kind, blocks))
        << block_kind_name(kind);
  }
}

}  // namespace
}  // namespace mantissa
