// How texts write numbers: the sign before decimals, and the one between thousands.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace mantissa {

struct NumberStyle {
  char decimal = '.';  // or ','
  char group = '\0';   // between thousands: , . ' or a space (no-break ones, too); 0: nothing
  friend bool operator==(const NumberStyle&, const NumberStyle&) = default;
};

// The first two have nothing between thousands.
constexpr std::array<NumberStyle, 8> kNumberStyles = {{{'.', '\0'},
                                                       {',', '\0'},
                                                       {'.', ','},
                                                       {',', '.'},
                                                       {'.', ' '},
                                                       {',', ' '},
                                                       {'.', '\''},
                                                       {',', '\''}}};

struct StyledNumber {
  double value = 0;       // rounded to nearest; infinite if it is too large
  bool is_whole = false;  // written without decimals and exponent
  bool is_grouped = false;
};

// The number that a text without space around it is in a style, if it is one: with an exponent
// only where nothing stands between thousands, and there three digits between any two signs.
std::optional<StyledNumber> number_in(std::string_view text, NumberStyle style);

// The number that a text is in one style, or in several styles that agree. Nothing if it is no
// number, or if styles disagree, as about 1.642.
std::optional<StyledNumber> clear_number(std::string_view text);

// Whether a text has a sign that styles read differently.
bool has_separator(std::string_view text);

// "a decimal comma and points between thousands".
std::string describe(NumberStyle style);

}  // namespace mantissa
