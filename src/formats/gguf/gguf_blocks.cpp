#include "formats/gguf/gguf_blocks.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/float16.h"

namespace mantissa {
namespace {

constexpr int kBlock = 32, kHalf = kBlock / 2;  // elements of a plain block
constexpr int kSubBlocks = 8;                   // of 32 elements, in a block of Q4_K and Q5_K
constexpr int kScaleBytes = 12;                 // of these sub-blocks

uint16_t half_bits(const uint8_t* at) { return static_cast<uint16_t>(at[0] | at[1] << 8); }
float half_at(const uint8_t* at) { return from_float16(half_bits(at)); }

uint32_t word_at(const uint8_t* at) {
  return static_cast<uint32_t>(at[0]) | static_cast<uint32_t>(at[1]) << 8 |
         static_cast<uint32_t>(at[2]) << 16 | static_cast<uint32_t>(at[3]) << 24;
}

void from_f32(const uint8_t* block, float* numbers) {
  *numbers = std::bit_cast<float>(word_at(block));
}
void from_f16(const uint8_t* block, float* numbers) { *numbers = half_at(block); }
void from_bf16(const uint8_t* block, float* numbers) { *numbers = from_bfloat16(half_bits(block)); }

// Element i of 32 four-bit numbers: the low halves of the bytes come first.
int nibble(const uint8_t* bytes, int i) {
  return i < kHalf ? bytes[i] & 15 : bytes[i - kHalf] >> 4;
}
// The same with a fifth bit.
int five_bits(const uint8_t* bytes, uint32_t high, int i) {
  return nibble(bytes, i) | static_cast<int>(high >> i & 1) << 4;
}

void from_q4_0(const uint8_t* block, float* numbers) {
  const float scale = half_at(block);
  for (int i = 0; i < kBlock; ++i) {
    numbers[i] = scale * static_cast<float>(nibble(block + 2, i) - 8);
  }
}

void from_q4_1(const uint8_t* block, float* numbers) {
  const float scale = half_at(block), least = half_at(block + 2);
  for (int i = 0; i < kBlock; ++i) {
    const float product = scale * static_cast<float>(nibble(block + 4, i));
    numbers[i] = product + least;
  }
}

void from_q5_0(const uint8_t* block, float* numbers) {
  const float scale = half_at(block);
  const uint32_t high = word_at(block + 2);
  for (int i = 0; i < kBlock; ++i) {
    numbers[i] = scale * static_cast<float>(five_bits(block + 6, high, i) - 16);
  }
}

void from_q5_1(const uint8_t* block, float* numbers) {
  const float scale = half_at(block), least = half_at(block + 2);
  const uint32_t high = word_at(block + 4);
  for (int i = 0; i < kBlock; ++i) {
    const float product = scale * static_cast<float>(five_bits(block + 8, high, i));
    numbers[i] = product + least;
  }
}

void from_q8_0(const uint8_t* block, float* numbers) {
  const float scale = half_at(block);
  for (int i = 0; i < kBlock; ++i) {
    numbers[i] = static_cast<float>(static_cast<int8_t>(block[2 + i])) * scale;
  }
}

// The scale and the minimum of a sub-block, of six bits each.
struct ScaleAndLeast {
  int scale, least;
};
ScaleAndLeast scale_of(const uint8_t* scales, int sub_block) {
  const int j = sub_block;
  if (j < 4) return {scales[j] & 63, scales[j + 4] & 63};
  return {(scales[j + 4] & 15) | (scales[j - 4] >> 6) << 4, (scales[j + 4] >> 4) | (scales[j] >> 6)
                                                                                       << 4};
}

// Eight sub-blocks of 32 numbers of four bits, with a fifth one in `high` if that is not null.
void from_sub_blocks(const uint8_t* block, const uint8_t* high, const uint8_t* low,
                     float* numbers) {
  const float scale = half_at(block), least = half_at(block + 2);
  for (int j = 0; j < kSubBlocks; ++j) {
    const ScaleAndLeast own = scale_of(block + 4, j);
    const float own_scale = scale * static_cast<float>(own.scale);
    const float own_least = least * static_cast<float>(own.least);
    for (int i = 0; i < kBlock; ++i) {
      const int byte = low[kBlock * (j / 2) + i];
      int q = j % 2 == 0 ? byte & 15 : byte >> 4;
      if (high != nullptr) q |= (high[i] >> j & 1) << 4;
      const float product = own_scale * static_cast<float>(q);
      numbers[kBlock * j + i] = product - own_least;
    }
  }
}

void from_q4_k(const uint8_t* block, float* numbers) {
  from_sub_blocks(block, nullptr, block + 4 + kScaleBytes, numbers);
}
void from_q5_k(const uint8_t* block, float* numbers) {
  const uint8_t* high = block + 4 + kScaleBytes;
  from_sub_blocks(block, high, high + kBlock, numbers);
}

void from_q6_k(const uint8_t* block, float* numbers) {
  constexpr int kElements = 256, kScale = 16;  // a scale for so many elements
  const uint8_t *low = block, *high = block + 128, *scales = block + 192;
  const float scale = half_at(block + 208);
  for (int i = 0; i < kElements; ++i) {
    const int half = i / 128, k = i / 32 % 4, l = i % 32;
    const int byte = low[64 * half + 32 * (k % 2) + l];
    const int q = (k < 2 ? byte & 15 : byte >> 4) | (high[32 * half + l] >> 2 * k & 3) << 4;
    const float own = scale * static_cast<float>(static_cast<int8_t>(scales[i / kScale]));
    numbers[i] = own * static_cast<float>(q - 32);
  }
}

constexpr GgufBlockType kTypes[] = {
    {0, "F32", 1, 4, from_f32},        {1, "F16", 1, 2, from_f16},
    {2, "Q4_0", 32, 18, from_q4_0},    {3, "Q4_1", 32, 20, from_q4_1},
    {6, "Q5_0", 32, 22, from_q5_0},    {7, "Q5_1", 32, 24, from_q5_1},
    {8, "Q8_0", 32, 34, from_q8_0},    {12, "Q4_K", 256, 144, from_q4_k},
    {13, "Q5_K", 256, 176, from_q5_k}, {14, "Q6_K", 256, 210, from_q6_k},
    {30, "BF16", 1, 2, from_bf16}};

}  // namespace

const GgufBlockType* gguf_block_type(uint32_t number) {
  const auto found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const GgufBlockType& type) { return type.number == number; });
  return found == std::end(kTypes) ? nullptr : found;
}

void dequantise(const GgufBlockType& type, std::span<const uint8_t> blocks,
                std::span<float> numbers) {
  const uint8_t* block = blocks.data();
  for (size_t i = 0; i < numbers.size(); i += static_cast<size_t>(type.elements)) {
    type.dequantise(block, numbers.data() + i);
    block += type.bytes;
  }
}

}  // namespace mantissa
