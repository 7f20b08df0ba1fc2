// The numbers that a block of weights can have (block_kind.h): least + scale * step, for whole
// steps of the kind's range.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "base/float16.h"
#include "numerics/block_kind.h"

namespace mantissa {

constexpr double kLargestInBlocks = 65504;  // the largest float16

// Both numbers are float16. Only blocks of q4_1 have a least number; others have 0.
struct BlockGrid {
  double scale = 0;
  double least = 0;
  bool operator==(const BlockGrid&) const = default;
};

struct BlockSteps {
  int low, high;
};

constexpr BlockSteps block_steps(BlockKind kind) {
  if (kind == BlockKind::kQ8_0) return {-127, 127};
  if (kind == BlockKind::kQ4_1) return {0, 15};
  return block_bits(kind) == 3 ? BlockSteps{-4, 3} : BlockSteps{-8, 7};
}

// A float16 close to a number; of numbers beyond the largest that one. Zeros have no sign.
inline double near_half(double number) {
  const double held = std::clamp(number, -kLargestInBlocks, kLargestInBlocks);
  return from_float16(to_float16(static_cast<float>(held))) + 0.0;
}

// The step of the grid that is nearest to a number, ties to even. Adding 1.5 * 2^52 rounds a
// number of this size to a whole one.
inline double nearest_step(double number, const BlockGrid& grid, const BlockSteps& steps) {
  constexpr double kRounds = 0x1.8p52;
  if (grid.scale == 0) return std::clamp(0, steps.low, steps.high);
  const double place =
      std::clamp<double>((number - grid.least) / grid.scale, steps.low, steps.high);
  return (place + kRounds) - kRounds;
}

inline double block_number(double step, const BlockGrid& grid) {
  return grid.least + grid.scale * step;
}

// The grid of ggml's reference, which clips nothing: the scale is of q8_0 the largest magnitude /
// 127, of q4_1 a 15th of the range, of others the number of the largest magnitude / -8, or, with 3
// bits, / -4.
inline BlockGrid whole_grid(BlockKind kind, std::span<const double> numbers) {
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  if (kind == BlockKind::kQ4_1) return {near_half((*high - *low) / 15), near_half(*low)};
  const double largest = *std::max_element(
      numbers.begin(), numbers.end(), [](double x, double y) { return std::abs(x) < std::abs(y); });
  if (kind == BlockKind::kQ8_0) return {near_half(std::abs(largest) / 127), 0};
  return {near_half(largest / block_steps(kind).low), 0};
}

}  // namespace mantissa
