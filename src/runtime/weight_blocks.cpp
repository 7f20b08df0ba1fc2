#include "runtime/weight_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/float16.h"
#include "numerics/exponent.h"

namespace mantissa {
namespace {

constexpr int kWeightBits = 8;

const uint8_t* bytes_at(std::span<const std::byte> blocks, int64_t at) {
  return reinterpret_cast<const uint8_t*>(blocks.data()) + at;
}

// The exponents of all rows.
std::vector<int16_t> row_exponents(BlockKind kind, std::span<const std::byte> blocks, int64_t rows,
                                   int64_t blocks_of_row) {
  std::vector<int16_t> exponents;
  const int64_t row_bytes = blocks_of_row * block_bytes(kind);
  for (int64_t row = 0; row < rows; ++row) {
    const uint64_t largest =
        ref_largest_of_blocks(bytes_at(blocks, row * row_bytes), ref_kind(kind), blocks_of_row);
    exponents.push_back(static_cast<int16_t>(
        largest == 0 ? zero_exponent(kWeightBits)
                     : bit_length(largest) + REF_BLOCK_UNIT - (kWeightBits - 1)));
  }
  const int least = *std::max_element(exponents.begin(), exponents.end()) - kMostChannelSpread;
  for (int16_t& exponent : exponents) {
    exponent = static_cast<int16_t>(std::max<int>(exponent, least));
  }
  return exponents;
}

void put_half(double number, uint8_t* to) {
  const uint16_t bits = to_float16(static_cast<float>(number));
  to[0] = static_cast<uint8_t>(bits & 0xff);
  to[1] = static_cast<uint8_t>(bits >> 8);
}

void put_block(BlockKind kind, const BlockGrid& grid, const int8_t* steps, uint8_t* block) {
  put_half(grid.scale, block);
  if (kind == BlockKind::kQ8_0) {
    std::copy_n(steps, kBlockWeights, reinterpret_cast<int8_t*>(block + 2));
    return;
  }
  const bool has_least = kind == BlockKind::kQ4_1;
  if (has_least) put_half(grid.least, block + 2);
  uint8_t* const q = block + (has_least ? 4 : 2);
  const int first = block_steps(kind).low;
  constexpr int64_t kHalf = kBlockWeights / 2;
  for (int64_t i = 0; i < kHalf; ++i) {
    q[i] = static_cast<uint8_t>((steps[i] - first) | (steps[i + kHalf] - first) << 4);
  }
}

}  // namespace

BlockKind block_kind_of(DataType type, std::span<const int64_t> shape) {
  if (type != DataType::kUint8 || shape.size() != 3) return BlockKind::kNone;
  for (const BlockKind kind : {BlockKind::kQ4_0, BlockKind::kQ4_1, BlockKind::kQ8_0}) {
    if (shape[2] == block_bytes(kind)) return kind;
  }
  return BlockKind::kNone;
}

BlockKind block_kind_of(const StateTensor& tensor) {
  return block_kind_of(tensor.type, dims_of(tensor.shape));
}

bool has_finite_scales(BlockKind kind, std::span<const std::byte> blocks) {
  constexpr int kNotFinite = 0x7c;  // of a float16's high byte
  for (int64_t at = 0; at < std::ssize(blocks); at += block_bytes(kind)) {
    const uint8_t* block = bytes_at(blocks, at);
    if ((block[1] & kNotFinite) == kNotFinite) return false;
    if (kind == BlockKind::kQ4_1 && (block[3] & kNotFinite) == kNotFinite) return false;
  }
  return true;
}

std::vector<double> block_numbers(BlockKind kind, std::span<const std::byte> blocks) {
  std::vector<double> numbers;
  numbers.reserve(blocks.size() / static_cast<size_t>(block_bytes(kind)) * kBlockWeights);
  for (int64_t at = 0; at < std::ssize(blocks); at += block_bytes(kind)) {
    std::array<int64_t, kBlockWeights> weights;
    ref_block_weights(bytes_at(blocks, at), ref_kind(kind), weights.data());
    for (const int64_t weight : weights) {
      numbers.push_back(std::ldexp(static_cast<double>(weight), REF_BLOCK_UNIT));
    }
  }
  return numbers;
}

namespace {

std::vector<int16_t> own_exponents(const State& state, const ParameterState& tensors) {
  const StateTensor& tensor = state.layout().tensors[tensors.mantissa];
  return row_exponents(block_kind_of(tensor), state.bytes(tensors.mantissa), tensor.shape[0],
                       tensor.shape[1]);
}

}  // namespace

void set_row_exponents(const ParameterState& tensors, State& state) {
  if (tensors.exponent < 0) return;
  std::ranges::copy(own_exponents(state, tensors), state.data<int16_t>(tensors.exponent));
}

void set_blocks(std::span<const std::byte> blocks, const ParameterState& tensors, State& state) {
  std::copy(blocks.begin(), blocks.end(), state.bytes(tensors.mantissa).begin());
  set_row_exponents(tensors, state);
}

bool has_own_exponents(const State& state, const ParameterState& tensors) {
  if (tensors.exponent < 0) return true;
  const std::vector<int16_t> own = own_exponents(state, tensors);
  return std::equal(own.begin(), own.end(), state.data<int16_t>(tensors.exponent));
}

std::vector<std::byte> packed_blocks(BlockKind kind, std::span<const BlockGrid> grids,
                                     std::span<const int8_t> steps) {
  std::vector<std::byte> blocks(grids.size() * static_cast<size_t>(block_bytes(kind)));
  for (size_t b = 0; b < grids.size(); ++b) {
    auto* const block = reinterpret_cast<uint8_t*>(blocks.data()) +
                        static_cast<int64_t>(b) * block_bytes(kind);
    put_block(kind, grids[b], steps.data() + b * kBlockWeights, block);
  }
  return blocks;
}

std::vector<std::byte> packed_blocks(BlockKind kind, std::span<const double> numbers) {
  std::vector<BlockGrid> grids;
  std::vector<int8_t> steps;
  for (size_t at = 0; at < numbers.size(); at += kBlockWeights) {
    const auto own = numbers.subspan(at, kBlockWeights);
    grids.push_back(whole_grid(kind, own));
    for (const double number : own) {
      steps.push_back(
          static_cast<int8_t>(nearest_step(number, grids.back(), block_steps(kind))));
    }
  }
  return packed_blocks(kind, grids, steps);
}

}  // namespace mantissa
