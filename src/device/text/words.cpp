#include "device/text/words.h"

#include <cctype>

namespace mantissa::device {

std::string with_words(std::string text, const Words& words) {
  for (const auto& [word, value] : words) {
    const std::string mark = "@" + word + "@";
    for (size_t at = text.find(mark); at != text.npos; at = text.find(mark, at + value.size())) {
      text.replace(at, mark.size(), value);
    }
  }
  return text;
}

std::string upper_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace mantissa::device
