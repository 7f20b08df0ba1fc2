// Numbers into blocks of GGUF's types.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/float16.h"
#include "formats/gguf/gguf_blocks.h"

namespace mantissa {
namespace {

template <typename T>
void append_bytes(std::string& bytes, T value) {
  static_assert(std::endian::native == std::endian::little);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

void append_q8_0(std::span<const int8_t> mantissas, int exponent, std::string& blocks) {
  const uint16_t scale = to_float16(std::ldexp(1.0F, exponent));
  for (size_t at = 0; at < mantissas.size(); at += kQ8Elements) {
    append_bytes(blocks, scale);
    blocks.append(reinterpret_cast<const char*>(mantissas.data() + at), kQ8Elements);
  }
}

void append_q8_0(std::span<const float> numbers, std::string& blocks) {
  constexpr float kMost = 127;
  for (size_t at = 0; at < numbers.size(); at += kQ8Elements) {
    const std::span<const float> block = numbers.subspan(at, kQ8Elements);
    float largest = 0;
    for (const float number : block) largest = std::max(largest, std::fabs(number));
    const float scale = largest / kMost, inverse = scale != 0 ? 1.0F / scale : 0.0F;
    append_bytes(blocks, to_float16(scale));
    for (const float number : block) {
      append_bytes(blocks, static_cast<int8_t>(std::round(number * inverse)));
    }
  }
}

void append_numbers(uint32_t type, std::span<const float> numbers, std::string& bytes) {
  for (const float number : numbers) {
    if (type == kGgufF32) append_bytes(bytes, number);
    if (type == kGgufF16) append_bytes(bytes, to_float16(number));
    if (type == kGgufBF16) append_bytes(bytes, to_bfloat16(number));
  }
}

}  // namespace mantissa
