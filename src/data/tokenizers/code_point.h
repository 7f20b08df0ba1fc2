// UTF-8, one code point after the other.
#pragma once

#include <utf8proc.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mantissa {

struct CodePoint {
  int32_t number;  // negative if the text is not UTF-8
  size_t length;   // bytes, at least 1
};

// The code point that begins at a place. at < text.size().
inline CodePoint code_point_at(std::string_view text, size_t at) {
  CodePoint point{};
  const auto length =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                       static_cast<utf8proc_ssize_t>(text.size() - at), &point.number);
  point.length = length > 0 ? static_cast<size_t>(length) : 1;
  if (length <= 0) point.number = -1;
  return point;
}

// Unicode's White_Space.
inline bool is_white(int32_t c) {
  constexpr int32_t kNextLine = 0x85;
  if ((c >= '\t' && c <= '\r') || c == kNextLine) return true;
  const auto category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

}  // namespace mantissa
