// Numbers and names as people read them, and laying them out in columns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mantissa::cli {

// "89.43 %"; "-" for a number that is not finite.
std::string percent(double fraction, int decimals = 2);

// "0.3011"; "-" for a number that is not finite.
std::string decimal(double value, int decimals);

// Six digits: "0.0512346", "54.1234", "1.23457e+06"; "-" for a number that is not finite.
std::string number_text(double value);

// "10,000".
std::string grouped(int64_t value);

// A rate or count that is rounded to a whole number: "12,346".
std::string grouped(double value);

// "61.2 MiB", "512 B".
std::string bytes_text(double bytes);

// "4.2 s", "1 min 12 s", "2 h 05 min".
std::string duration(double seconds);

// "0:42", "12:05", "1:02:03".
std::string clock_time(double seconds);

// `text` without control characters, so that nothing from a file can drive the terminal.
std::string printable(std::string_view text);

// How many columns UTF-8 text takes (one per character).
int columns(std::string_view text);

// `text` cut to at most `width` columns.
std::string shortened(std::string_view text, int width);

// A path cut to at most `width` (> 3) columns at its front, which becomes "...": its end tells
// more.
std::string shortened_path(std::string_view text, int width);

// `text` filled with spaces to `width` columns, on the right or on the left.
std::string pad_right(std::string_view text, int width);
std::string pad_left(std::string_view text, int width);

// Words of `text` in lines of at most `width` columns.
std::string wrapped(std::string_view text, int width);

// The arguments as one would type them in a shell.
std::string shell_line(const std::vector<std::string>& arguments);

}  // namespace mantissa::cli
