// A number in a text, by printf's format.
#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace mantissa {

inline std::string formatted(const char* format, double value) {
  std::array<char, 48> text;
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

}  // namespace mantissa
