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

// Compares the first row with rows below it, some of which are in `rows`. A first row of names is:
// texts above numbers; texts that no row repeats, above texts that rows repeat; numbers above
// texts; pandas' own names, 0, 1, 2, ..., with an empty one for an index. If none of these decides:
// texts without numbers, or with whole numbers that go on from one to the next, or lie beyond the
// values below, as years do.
HeaderGuess guess_header(const RowTexts& first, std::span<const RowTexts> rows);

}  // namespace mantissa
