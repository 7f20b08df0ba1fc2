// The types of tensors in GGUF files: numbers, or blocks of small integers with scales.
#pragma once

#include <cstdint>
#include <span>

namespace mantissa {

struct GgufBlockType {
  uint32_t number;   // in files
  const char* name;  // ggml's
  int64_t elements;  // of a block; 1: plain numbers
  int64_t bytes;     // of a block
  void (*dequantise)(const uint8_t* block, float* numbers);
};

// F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K. Null: another one.
const GgufBlockType* gguf_block_type(uint32_t number);

// Numbers of whole blocks, to the bit as ggml's reference computes them: scales are float16, and
// products and sums are rounded to float32 in its order. Sizes fit each other.
void dequantise(const GgufBlockType& type, std::span<const uint8_t> blocks,
                std::span<float> numbers);

}  // namespace mantissa
