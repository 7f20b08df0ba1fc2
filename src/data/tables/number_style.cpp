#include "data/tables/number_style.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace mantissa {
namespace {

constexpr size_t kLongest = 64;  // bytes of a number with separators
constexpr size_t kGroup = 3;     // digits between two signs

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_whole(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

// The number that a text with a decimal point says. Nothing if it is no number.
std::optional<double> parse(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  const char first = text[text.starts_with('-') ? std::min<size_t>(1, text.size() - 1) : 0];
  if (first != '.' && first != 'i' && first != 'I' && !is_digit(first)) return std::nullopt;
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (stop != end || std::isnan(number)) return std::nullopt;
  if (error == std::errc{}) return number;
  if (error != std::errc::result_out_of_range) return std::nullopt;
  const bool is_small = text.find("e-") != text.npos || text.find("E-") != text.npos;
  return is_small ? 0 : std::numeric_limits<double>::infinity();
}

// The signs that look like others: no-break and thin spaces, the typographic apostrophe, minus.
std::string with_plain_signs(std::string_view text) {
  struct Sign {
    std::string_view utf8;
    char plain;
  };
  constexpr std::array<Sign, 5> kSigns = {{{"\xC2\xA0", ' '},
                                           {"\xE2\x80\xAF", ' '},
                                           {"\xE2\x80\x89", ' '},
                                           {"\xE2\x80\x99", '\''},
                                           {"\xE2\x88\x92", '-'}}};
  std::string plain;
  while (!text.empty()) {
    const auto sign = std::find_if(kSigns.begin(), kSigns.end(),
                                   [&](const Sign& one) { return text.starts_with(one.utf8); });
    plain += sign == kSigns.end() ? text[0] : sign->plain;
    text.remove_prefix(sign == kSigns.end() ? 1 : sign->utf8.size());
  }
  return plain;
}

// The digits of whole thousands, "1,234,567", without the signs; empty if they do not stand so.
std::string without_groups(std::string_view text, char group) {
  const size_t first = std::min(text.find(group), text.size());
  if (first < 1 || first > kGroup || text[0] == '0') return "";
  std::string digits(text.substr(0, first));
  for (text.remove_prefix(first); !text.empty(); text.remove_prefix(kGroup + 1)) {
    if (text[0] != group || text.size() < kGroup + 1) return "";
    digits += text.substr(1, kGroup);
  }
  return std::all_of(digits.begin(), digits.end(), is_digit) ? digits : "";
}

// A number in whose text the sign between thousands stands.
std::optional<StyledNumber> grouped_number(std::string_view text, NumberStyle style) {
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  const std::string sign = text.starts_with('-') ? "-" : "";
  if (has_sign) text.remove_prefix(1);
  const size_t at = text.find(style.decimal);
  const std::string digits = without_groups(text.substr(0, at), style.group);
  if (digits.empty()) return std::nullopt;
  if (at == text.npos) return StyledNumber{*parse(sign + digits), true, true};
  const std::string_view decimals = text.substr(at + 1);
  if (!std::all_of(decimals.begin(), decimals.end(), is_digit)) return std::nullopt;
  return StyledNumber{*parse(sign + digits + "." + std::string(decimals)), false, true};
}

}  // namespace

std::optional<StyledNumber> number_in(std::string_view text, NumberStyle style) {
  std::string plain;
  const auto is_ascii = [](char c) { return static_cast<signed char>(c) >= 0; };
  if (!std::all_of(text.begin(), text.end(), is_ascii)) {
    if (text.size() > kLongest) return std::nullopt;
    plain = with_plain_signs(text);
    text = plain;
  }
  if (style.group != '\0' && text.find(style.group) != text.npos) {
    return text.size() > kLongest ? std::nullopt : grouped_number(text, style);
  }
  if (text.starts_with('+')) text.remove_prefix(1);
  std::array<char, kLongest> point;
  if (style.decimal == ',') {
    if (text.find('.') != text.npos || text.size() > point.size()) return std::nullopt;
    std::replace_copy(text.begin(), text.end(), point.begin(), ',', '.');
    text = {point.data(), text.size()};
  }
  const auto value = parse(text);
  if (!value) return std::nullopt;
  return StyledNumber{*value, is_whole(text), false};
}

std::optional<StyledNumber> clear_number(std::string_view text) {
  std::optional<StyledNumber> found;
  for (const NumberStyle style : kNumberStyles) {
    const auto number = number_in(text, style);
    if (number && found && number->value != found->value) return std::nullopt;
    if (!found) found = number;
  }
  return found;
}

bool has_separator(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return c == '.' || c == ',' || c == ' ' || c == '\'' || static_cast<signed char>(c) < 0;
  });
}

std::string describe(NumberStyle style) {
  const std::string decimal = style.decimal == '.' ? "decimal points" : "decimal commas";
  switch (style.group) {
    case ',':
      return decimal + " and commas between thousands";
    case '.':
      return decimal + " and points between thousands";
    case ' ':
      return decimal + " and spaces between thousands";
    case '\'':
      return decimal + " and apostrophes between thousands";
    default:
      return decimal;
  }
}

}  // namespace mantissa
