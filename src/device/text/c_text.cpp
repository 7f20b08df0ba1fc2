#include "device/text/c_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

namespace mantissa::device {
namespace {

constexpr size_t kLineLength = 100;

// Appends words, separated by ", ", in lines that begin with `indent` blanks.
void append_words(std::string& text, std::span<const std::string> words, size_t indent,
                  size_t column) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? "," : "");
    if (i > 0 && column + 1 + word.size() > kLineLength) {
      text += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (i > 0) {
      text += ' ';
      ++column;
    }
    text += word;
    column += word.size();
  }
}

}  // namespace

std::string c_name(std::string_view name) {
  std::string result;
  for (const char c : name) {
    result += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  if (result.empty() || std::isdigit(static_cast<unsigned char>(result[0])) != 0) {
    result.insert(0, "n");
  }
  return result;
}

std::string c_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (byte < 0x20 || byte >= 0x7f || c == '?') {
      std::array<char, 8> octal;  // three digits: the next character cannot belong to it
      std::snprintf(octal.data(), octal.size(), "\\%03o", byte);
      result += octal.data();
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string c_table(std::string_view type, std::string_view name,
                    std::span<const int64_t> numbers) {
  std::vector<std::string> words;
  for (const int64_t number : numbers) words.push_back(std::to_string(number));
  if (words.empty()) words.emplace_back("0");
  std::string text = "static const " + std::string(type) + " " + std::string(name) + "[" +
                     std::to_string(words.size()) + "] = {\n    ";
  append_words(text, words, 4, 4);
  return text + "};\n";
}

std::string c_structure(const CMembers& members, int indent) {
  std::vector<std::string> words;
  for (const auto& [member, value] : members) {
    words.push_back("." + std::string(member) + " = " + value);
  }
  std::string text = "{";
  append_words(text, words, static_cast<size_t>(indent) + 4, kLineLength / 3);
  return text + "}";
}

}  // namespace mantissa::device
