#include "cli/terminal/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace mantissa::cli {
namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Bytes of the UTF-8 character that `text` begins with; 0 if it begins with none.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto first = byte(0);
  const size_t bytes = first < 0x80   ? 1
                       : first < 0xC2 ? 0
                       : first < 0xE0 ? 2
                       : first < 0xF0 ? 3
                                      : 4;
  if (bytes < 2) return bytes;
  if (first > 0xF4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if (!continues_character(text[i])) return 0;
  }
  // Longer than need be, half of a pair of UTF-16, or beyond the last character.
  const bool wrong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
                     (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F);
  return wrong ? 0 : bytes;
}

// A control character of ASCII, or one of those from 0x80 on, which terminals obey, too.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return character.size() == 2 && first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
}

std::string two_digits(int64_t value) { return (value < 10 ? "0" : "") + std::to_string(value); }

int64_t whole_seconds(double seconds) {
  return std::isfinite(seconds) ? std::llround(std::clamp(seconds, 0.0, 1e9)) : 0;
}

// As typed in a shell. Characters that a terminal would obey or cannot show are written as numbers,
// which bash, zsh and ksh understand.
std::string shell_word(const std::string& argument) {
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:=+@%";
  if (!argument.empty() && argument.find_first_not_of(kSafe) == std::string::npos) return argument;
  std::string quoted, numbered;
  bool needs_numbers = false;
  for (std::string_view rest = argument; !rest.empty();) {
    const size_t bytes = character_bytes(rest);
    const std::string_view character = rest.substr(0, std::max<size_t>(1, bytes));
    rest.remove_prefix(character.size());
    quoted += character == "'" ? "'\\''" : character;
    if (bytes > 0 && !is_control(character)) {
      if (character == "'" || character == "\\") numbered += '\\';
      numbered += character;
      continue;
    }
    needs_numbers = true;
    for (const char byte : character) {
      const auto code = static_cast<unsigned char>(byte);
      numbered += '\\';
      for (const int shift : {6, 3, 0}) numbered += static_cast<char>('0' + (code >> shift & 7));
    }
  }
  return needs_numbers ? "$'" + numbered + "'" : "'" + quoted + "'";
}

}  // namespace

std::string decimal(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  char buffer[400];  // the longest double has 309 digits before the point
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return buffer;
}

std::string number_text(double value) {
  if (!std::isfinite(value)) return "-";
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.6g", value);
  return buffer;
}

std::string percent(double fraction, int decimals) {
  return std::isfinite(fraction) ? decimal(100 * fraction, decimals) + " %" : "-";
}

std::string grouped(int64_t value) {
  std::string digits = std::to_string(value);
  const int first = value < 0 ? 1 : 0;
  for (int at = static_cast<int>(digits.size()) - 3; at > first; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string grouped(double value) {
  if (!std::isfinite(value) || std::abs(value) > 1e15) return "-";
  return grouped(static_cast<int64_t>(std::llround(value)));
}

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (std::abs(bytes) >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return decimal(bytes, unit == 0 ? 0 : 1) + " " + units[unit];
}

std::string duration(double seconds) {
  if (!(seconds >= 60)) return decimal(std::max(seconds, 0.0), seconds < 9.95 ? 1 : 0) + " s";
  const int64_t whole = whole_seconds(seconds);
  if (whole < 3600) return std::to_string(whole / 60) + " min " + two_digits(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + two_digits(whole / 60 % 60) + " min";
}

std::string clock_time(double seconds) {
  const int64_t whole = whole_seconds(seconds);
  const std::string rest = ":" + two_digits(whole % 60);
  if (whole < 3600) return std::to_string(whole / 60) + rest;
  return std::to_string(whole / 3600) + ":" + two_digits(whole / 60 % 60) + rest;
}

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t bytes = character_bytes(text);
    const std::string_view character = text.substr(0, std::max<size_t>(1, bytes));
    const bool blank = character == "\n" || character == "\t";
    result += blank ? " " : bytes == 0 || is_control(character) ? "?" : character;
    text.remove_prefix(character.size());
  }
  return result;
}

int columns(std::string_view text) {
  return static_cast<int>(text.size() -
                          std::count_if(text.begin(), text.end(), continues_character));
}

std::string shortened(std::string_view text, int width) {
  size_t end = 0;
  for (int count = 0; end < text.size(); ++end) {
    if (!continues_character(text[end]) && ++count > width) break;
  }
  return std::string(text.substr(0, end));
}

std::string shortened_path(std::string_view text, int width) {
  if (columns(text) <= width) return std::string(text);
  for (int rest = columns(text); rest > width - 3; --rest) {
    do {
      text.remove_prefix(1);
    } while (!text.empty() && continues_character(text[0]));
  }
  return "..." + std::string(text);
}

std::string pad_right(std::string_view text, int width) {
  return std::string(text) + std::string(std::max(0, width - columns(text)), ' ');
}

std::string pad_left(std::string_view text, int width) {
  return std::string(std::max(0, width - columns(text)), ' ') + std::string(text);
}

std::string wrapped(std::string_view text, int width) {
  std::string result;
  int used = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (word.empty()) continue;
    const bool fits = used == 0 || used + 1 + columns(word) <= width;
    if (!result.empty()) result += fits ? ' ' : '\n';
    used = (fits && used > 0 ? used + 1 : 0) + columns(word);
    result += word;
  }
  return result;
}

std::string shell_line(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& argument : arguments) {
    line += (line.empty() ? "" : " ") + shell_word(argument);
  }
  return line;
}

}  // namespace mantissa::cli
