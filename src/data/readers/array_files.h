// The arrays of a split, in an NPZ file or in two NPY files.
#pragma once

#include <string>

#include "base/result.h"
#include "data/datasets/readers.h"
#include "formats/arrays/npy.h"

namespace mantissa {

// The inputs and targets of a split. Its files: an NPZ file and the names of two arrays in it, or
// two NPY files.
struct ArrayPair {
  NpyArray x, y;
};

Result<ArrayPair> read_pair(const FoundSplit& split);

// "[60000, 28, 28]".
std::string shape_text(const NpyArray& array);

}  // namespace mantissa
