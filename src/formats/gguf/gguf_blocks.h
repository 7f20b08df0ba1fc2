// The types of tensors in GGUF files: numbers, or blocks of small integers with scales.
#pragma once

#include <cstdint>
#include <span>
#include <string>

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

// The numbers of types in files.
inline constexpr uint32_t kGgufF32 = 0, kGgufF16 = 1, kGgufQ4_0 = 2, kGgufQ4_1 = 3, kGgufQ8_0 = 8,
                          kGgufBF16 = 30;

constexpr int64_t kQ8Elements = 32;  // of a block of Q8_0

// Appends blocks of Q8_0 with these bytes and the scale 2^exponent: exact. -24 <= exponent <= 15,
// and whole blocks.
void append_q8_0(std::span<const int8_t> mantissas, int exponent, std::string& blocks);

// Appends blocks of Q8_0 of numbers, rounded as ggml's reference does it: scales are a 127th of a
// block's largest magnitude, in float16, and quotients by the scale in float32 are rounded, ties
// away from zero.
void append_q8_0(std::span<const float> numbers, std::string& blocks);

// Appends numbers as F32, F16 or BF16, to nearest with ties to even.
void append_numbers(uint32_t type, std::span<const float> numbers, std::string& bytes);

// Numbers of whole blocks, to the bit as ggml's reference computes them: scales are float16, and
// products and sums are rounded to float32 in its order. Sizes fit each other.
void dequantise(const GgufBlockType& type, std::span<const uint8_t> blocks,
                std::span<float> numbers);

}  // namespace mantissa
