// Real numbers as text that says exactly which number it is.
#pragma once

#include <array>
#include <charconv>
#include <string>

namespace mantissa {

// The shortest text that reads back as the same number.
inline std::string real_text(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

}  // namespace mantissa
