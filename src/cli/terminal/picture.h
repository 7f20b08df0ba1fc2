// Pictures drawn in a terminal.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/terminal.h"
#include "mantissa/mantissa.h"

namespace mantissa::cli {

// A picture as lines that each take `columns` columns.
struct DrawnPicture {
  std::vector<std::string> lines;
  int columns = 0;
};

// Draws a prediction's pixels, at most `max_columns` wide (larger ones are scaled down by area):
// two pixels per character as half blocks in 24-bit colours where the terminal has both, else at
// half the size with two characters of an ASCII ramp per pixel (brighter is denser). Nothing for
// pixels that do not match the picture's size.
DrawnPicture draw_picture(const Prediction& prediction, const Terminal& terminal, int max_columns);

// The predictions' pictures side by side, as many in a row as fit the width, each with its source,
// the guess with its probability, and whether that is right; empty if there is no picture,
// or if there are several guesses for each.
std::string picture_gallery(const Predictions& predictions, const Terminal& terminal);

// The name of a class, or its number if it has none.
std::string class_name(const std::vector<std::string>& names, int index);

}  // namespace mantissa::cli
