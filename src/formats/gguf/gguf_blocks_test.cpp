#include "formats/gguf/gguf_blocks.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <string>
#include <vector>

#include "base/hash.h"

namespace mantissa {
namespace {

// Pseudo-random blocks of a type whose scales are finite: the byte of each float16's exponent loses
// its largest bit.
std::vector<uint8_t> some_blocks(const GgufBlockType& type, int64_t count) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count * type.bytes));
  uint32_t state = 12345;
  for (uint8_t& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<uint8_t>(state >> 24);
  }
  std::vector<int64_t> high_bytes = {1};
  if (type.elements == 1) high_bytes = {type.bytes - 1};
  if (type.number == 3 || type.number == 7 || type.number == 12 || type.number == 13) {
    high_bytes = {1, 3};  // a scale and a minimum
  }
  if (type.number == 14) high_bytes = {209};
  for (int64_t i = 0; i < count; ++i) {
    for (const int64_t at : high_bytes) bytes[static_cast<size_t>(i * type.bytes + at)] &= 0xBF;
  }
  return bytes;
}

// Numbers 0, 17, 63 and the last, and the SHA-256 of all, as gguf.quants.dequantize of PyPI's gguf
// 0.19.0 gave them for the same bytes.
struct Expected {
  uint32_t type;
  std::array<uint32_t, 4> some;
  const char* sha256;
};
constexpr Expected kExpected[] = {
    {0,
     {0xa28b0405u, 0x271e2dcbu, 0x184993b1u, 0x2b9dbf70u},
     "a431c2574a2055d7cca3401d5bc7c8bcd0ed29ec522835d6155216c1d05fd028"},
    {1,
     {0x3880a000u, 0xbed24000u, 0xbdcac000u, 0x3eb94000u},
     "4a6b59fab591cfa598d88a5851e46730acfb09a4fc5016eb439b6e43a34e5240"},
    {30,
     {0x04050000u, 0xb6920000u, 0xae560000u, 0x35ca0000u},
     "9a784912fd90a35a01a01f8bb5bc4609cb26b33f7d30e84c6c6709e5715ee6b2"},
    {2,
     {0x3940f000u, 0x3900a000u, 0xbfcf4400u, 0xbb8b4c00u},
     "1b1d7030566af3e4859e07eea5b918b2d8428beb7173ba0c7a38d89a05de2538"},
    {3,
     {0xbc495600u, 0xbc505ec0u, 0x3fcf8a00u, 0xbe39f700u},
     "fcd20e32f22601607c3be82d5a72c7879d7f6bfecd5538f081710c0f7e99222b"},
    {6,
     {0x3a611800u, 0xba00a000u, 0xc1322000u, 0xbf1aa800u},
     "607bef2c6e185caa76bad55c5bf7e8159f82f1331e2cc6db7dd610914705cfdb"},
    {7,
     {0xbc495600u, 0xbc353d00u, 0x3f555c00u, 0x3f7cf71cu},
     "2c12bcd1bb76f7ceb11575991ca99b710f3ed93de6f0d4e62cd25272bbc1e176"},
    {8,
     {0xbbeb2480u, 0xba510400u, 0x41ae1d00u, 0x3a1b0000u},
     "545c185035a5d4864e59ffde3605bacae9cc827aae9ccc89584d1db6796709d0"},
    {12,
     {0x3ea34fd0u, 0x3ea997a0u, 0x3dfb9480u, 0xc0343400u},
     "40b1803e7ed1d2baaa17aedb24a506543bd7ae57baced2414ac087893a6f6b27"},
    {13,
     {0x3eb768d0u, 0x3ea85610u, 0x3de2f5e0u, 0x445369b8u},
     "008f9e5cb0cc95ab1785c0cdee4a242e1af6d82e22ac1f95dd34f9371ca771c6"},
    {14,
     {0xc424de10u, 0x448963b8u, 0x43ffe100u, 0x3d5fd280u},
     "ffae19d693e216c21f7cb821be73109cdb581655ddbe549baf5a44cc63f1003a"},
};

TEST(GgufBlocks, AreDequantisedToTheBitsOfTheReference) {
  for (const Expected& expected : kExpected) {
    const GgufBlockType* type = gguf_block_type(expected.type);
    ASSERT_NE(type, nullptr);
    const int64_t blocks = type->elements == 1 ? 16384 : 64;
    const std::vector<uint8_t> bytes = some_blocks(*type, blocks);
    std::vector<float> numbers(static_cast<size_t>(blocks * type->elements));
    dequantise(*type, bytes, numbers);
    const std::array<float, 4> some = {numbers[0], numbers[17], numbers[63], numbers.back()};
    for (size_t i = 0; i < some.size(); ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(some[i]), expected.some[i]) << type->name << " " << i;
    }
    Sha256 hash;
    hash.update(std::as_bytes(std::span(numbers)));
    EXPECT_EQ(hash.hex_digest(), expected.sha256) << type->name;
  }
}

TEST(GgufBlocks, OtherTypesAreNone) {
  for (const uint32_t type : {4u, 5u, 9u, 10u, 11u, 15u, 16u, 24u, 29u, 31u, 41u, ~0u}) {
    EXPECT_EQ(gguf_block_type(type), nullptr) << type;
  }
}

}  // namespace
}  // namespace mantissa
