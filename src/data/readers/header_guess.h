// Whether the first row of a table has the names of its columns.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace mantissa {

struct HeaderGuess {
  bool has_names = false;
  bool is_sure = false;  // else the user is told
};

using RowTexts = std::vector<std::string>;

// By what stands below, of which `rows` are some. Names are: texts above numbers; texts that no row
// repeats above such as do; numbers above texts; pandas' own names, 0, 1, 2, ..., with an empty one
// for an index; and where nothing of that tells, texts without numbers, or with whole numbers that
// go on from one to the next, or beyond the values below, as years do.
HeaderGuess guess_header(const RowTexts& first, std::span<const RowTexts> rows);

}  // namespace mantissa
