// UTF-8, one code point after the other.
#pragma once

#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
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

// The place of the first byte that is not UTF-8, or the size of the text.
inline size_t first_not_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (point.number < 0) return at;
    at += point.length;
  }
  return text.size();
}

// A byte's place in a text, in words: "line 2, byte 17".
inline std::string text_place(std::string_view text, size_t at) {
  const auto line = std::count(text.begin(), text.begin() + static_cast<int64_t>(at), '\n') + 1;
  return "line " + std::to_string(line) + ", byte " + std::to_string(at);
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
