#include "runtime/weight_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>

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

// The nearest float16 of a number, as its bits; of numbers beyond the largest that one.
uint16_t half_of(double number) {
  constexpr int kLeastExponent = -13, kDigits = 11, kBias = 14, kFractionBits = 10;
  const double size = std::min(std::abs(number), kLargestInBlocks);
  int exponent = kLeastExponent;
  if (size > 0) std::frexp(size, &exponent);
  exponent = std::max(exponent, kLeastExponent);
  const auto digits = static_cast<int>(std::nearbyint(std::ldexp(size, kDigits - exponent)));
  // Digits that were rounded up to 2^11 carry into the exponent; fewer than 2^10 have none.
  const int bits = ((exponent + kBias) << kFractionBits) + digits - (1 << kFractionBits);
  return static_cast<uint16_t>(bits | (number < 0 ? 0x8000 : 0));
}

// Writes a float16 and returns the number that it is.
double put_half(double number, uint8_t* to) {
  const uint16_t bits = half_of(number);
  to[0] = static_cast<uint8_t>(bits & 0xff);
  to[1] = static_cast<uint8_t>(bits >> 8);
  return std::ldexp(static_cast<double>(ref_half_in_units(to)), REF_BLOCK_UNIT);
}

int nearest(double number, double scale, int least, int most) {
  const double place = scale == 0 ? 0 : std::nearbyint(number / scale);
  return static_cast<int>(std::clamp<double>(place, least, most));
}

void pack_bytes(std::span<const double> numbers, double largest, uint8_t* block) {
  const double scale = put_half(std::abs(largest) / 127, block);
  for (size_t i = 0; i < numbers.size(); ++i) {
    block[2 + i] = static_cast<uint8_t>(nearest(numbers[i], scale, -127, 127));
  }
}

void pack_halves(BlockKind kind, std::span<const double> numbers, double largest, uint8_t* block) {
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  const bool has_least = kind == BlockKind::kQ4_1;
  const double scale = put_half(has_least ? (*high - *low) / 15 : largest / -8, block);
  const double least = has_least ? put_half(*low, block + 2) : -8 * scale;
  uint8_t* const q = block + (has_least ? 4 : 2);
  constexpr size_t kHalf = kBlockWeights / 2;
  for (size_t i = 0; i < kHalf; ++i) {
    q[i] = static_cast<uint8_t>(nearest(numbers[i] - least, scale, 0, 15) |
                                nearest(numbers[i + kHalf] - least, scale, 0, 15) << 4);
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

std::vector<std::byte> packed_blocks(BlockKind kind, std::span<const double> numbers) {
  const auto count = static_cast<int64_t>(numbers.size()) / kBlockWeights;
  std::vector<std::byte> blocks(static_cast<size_t>(count * block_bytes(kind)));
  for (int64_t b = 0; b < count; ++b) {
    auto* const block = reinterpret_cast<uint8_t*>(blocks.data()) + b * block_bytes(kind);
    const auto own = numbers.subspan(static_cast<size_t>(b * kBlockWeights), kBlockWeights);
    const double largest = *std::ranges::max_element(
        own, [](double x, double y) { return std::abs(x) < std::abs(y); });
    kind == BlockKind::kQ8_0 ? pack_bytes(own, largest, block)
                             : pack_halves(kind, own, largest, block);
  }
  return blocks;
}

}  // namespace mantissa
