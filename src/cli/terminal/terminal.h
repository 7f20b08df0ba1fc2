// The terminal behind a standard stream, if there is one, and its width and colours.
#pragma once

#include <string>
#include <string_view>

namespace mantissa::cli {

// A stream's abilities, found once at the start.
struct Terminal {
  int descriptor = 1;
  bool redraws = false;  // a terminal on which a line can be drawn over
  bool colour = false;   // 24-bit colours; never with NO_COLOR or TERM=dumb
  bool utf8 = false;     // the locale's characters are UTF-8

  // Its width in columns now (windows are resized); for files $COLUMNS, else 80.
  int width() const;

  // `text` in a style ("1" bold, "2" dim, "31" red, "32" green), or unchanged without colour.
  std::string paint(std::string_view style, std::string_view text) const;

  // `fancy` in UTF-8 locales, else `plain`.
  std::string_view symbol(std::string_view fancy, std::string_view plain) const {
    return utf8 ? fancy : plain;
  }
};

// Looks at a standard stream (1 or 2) and at TERM, NO_COLOR and the locale.
Terminal describe_terminal(int descriptor);

// Writes all of `text` at once, unbuffered. Errors are ignored: it is for messages and progress.
void write_message(int descriptor, std::string_view text);

}  // namespace mantissa::cli
