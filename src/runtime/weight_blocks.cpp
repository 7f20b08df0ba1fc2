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

// 32 weights (reference/elements/blocks.h).
void put_part(BlockKind kind, const int8_t* steps, uint8_t* part) {
  const int bits = block_bits(kind), first = block_steps(kind).low;
  if (bits == 8) {
    std::copy_n(steps, REF_PART_WEIGHTS, reinterpret_cast<int8_t*>(part));
    return;
  }
  std::fill_n(part, ref_part_bytes(ref_kind(kind)), uint8_t{0});
  for (int i = 0; i < REF_PART_WEIGHTS; ++i) {
    const int q = steps[i] - first;
    if (bits == 4) {
      part[i % 16] |= static_cast<uint8_t>(q << 4 * (i / 16));
    } else {
      part[i % 8] |= static_cast<uint8_t>((q & 3) << 2 * (i / 8));
      part[8 + i % 4] |= static_cast<uint8_t>(q >> 2 << i / 4);
    }
  }
}

void put_block(BlockKind kind, const BlockGrid& grid, const int8_t* steps, uint8_t* block) {
  put_half(grid.scale, block);
  if (kind == BlockKind::kQ4_1) put_half(grid.least, block + 2);
  const RefBlockKind ref = ref_kind(kind);
  for (int64_t p = 0; p < ref_block_parts(ref); ++p) {
    put_part(kind, steps + p * REF_PART_WEIGHTS,
             block + ref_scale_bytes(ref) + p * ref_part_bytes(ref));
  }
}

}  // namespace

BlockKind block_kind_of(DataType type, std::span<const int64_t> shape) {
  return type == DataType::kUint8 ? kind_of_dims(shape) : BlockKind::kNone;
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
  numbers.reserve(blocks.size() / static_cast<size_t>(block_bytes(kind) * block_weights(kind)));
  for (int64_t at = 0; at < std::ssize(blocks); at += block_bytes(kind)) {
    std::array<int64_t, kMostBlockWeights> weights;
    ref_block_weights(bytes_at(blocks, at), ref_kind(kind), weights.data());
    for (int64_t i = 0; i < block_weights(kind); ++i) {
      const auto weight = static_cast<double>(weights[static_cast<size_t>(i)]);
      numbers.push_back(std::ldexp(weight, REF_BLOCK_UNIT));
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
    put_block(kind, grids[b], steps.data() + static_cast<int64_t>(b) * block_weights(kind), block);
  }
  return blocks;
}

std::vector<std::byte> packed_blocks(BlockKind kind, std::span<const double> numbers) {
  std::vector<BlockGrid> grids;
  std::vector<int8_t> steps;
  const auto count = static_cast<size_t>(block_weights(kind));
  for (size_t at = 0; at < numbers.size(); at += count) {
    const auto own = numbers.subspan(at, count);
    grids.push_back(whole_grid(kind, own));
    for (const double number : own) {
      steps.push_back(
          static_cast<int8_t>(nearest_step(number, grids.back(), block_steps(kind))));
    }
  }
  return packed_blocks(kind, grids, steps);
}

std::vector<std::byte> as_q4_0(BlockKind kind, std::span<const std::byte> blocks) {
  std::vector<BlockGrid> grids;
  std::vector<int8_t> steps;
  for (int64_t at = 0; at < std::ssize(blocks); at += block_bytes(kind)) {
    const uint8_t* const block = bytes_at(blocks, at);
    const auto bits = static_cast<uint16_t>(block[0] | block[1] << 8);
    grids.insert(grids.end(), static_cast<size_t>(ref_block_parts(ref_kind(kind))),
                 BlockGrid{from_float16(bits), 0});
    std::array<int8_t, kMostBlockWeights> own;
    ref_block_steps(block, ref_kind(kind), own.data());
    steps.insert(steps.end(), own.begin(), own.begin() + block_weights(kind));
  }
  return packed_blocks(BlockKind::kQ4_0, grids, steps);
}

}  // namespace mantissa
