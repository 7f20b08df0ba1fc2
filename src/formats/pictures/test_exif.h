// For tests: EXIF blocks.
#pragma once

#include <cstdint>
#include <string>

namespace mantissa {

// An EXIF block with that orientation, after an entry of another tag.
inline std::string exif_block(int orientation, bool little_endian) {
  const auto number = [&](uint32_t value, int length) {
    std::string bytes;
    for (int i = 0; i < length; ++i) {
      bytes += static_cast<char>(value >> 8 * (little_endian ? i : length - 1 - i));
    }
    return bytes;
  };
  const auto entry = [&](uint32_t tag, uint32_t value) {
    return number(tag, 2) + number(3, 2) + number(1, 4) + number(value, 2) + number(0, 2);
  };
  return (little_endian ? "II" : "MM") + number(42, 2) + number(8, 4) + number(2, 2) +
         entry(0x0100, 99) + entry(0x0112, static_cast<uint32_t>(orientation)) + number(0, 4);
}

}  // namespace mantissa
