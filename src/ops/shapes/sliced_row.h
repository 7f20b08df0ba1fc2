// Where a slice begins: the same in all arithmetics.
#pragma once

#include "ops/attributes.h"
#include "tensor/tensor.h"

namespace mantissa::ops {

// Elements of the sliced value that lie together: the channels of one position or, with `position`,
// of all positions of a sequence.
struct SlicedRow {
  int64_t size;   // elements of the whole
  int64_t first;  // the first in the slice
};

// Rows of a value [..., C], or [..., positions, C] with `position`; also with examples in front.
inline SlicedRow sliced_row(const SliceAttributes& attributes, const Shape& whole) {
  const int64_t first = attributes.first, position = attributes.position;
  if (position < 0) return {whole.last(), first};
  return {whole[whole.rank - 2] * whole.last(), position * whole.last() + first};
}

}  // namespace mantissa::ops
