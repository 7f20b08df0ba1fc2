// Loops over several operands at once, whose strides differ: broadcasting, slices, transposition.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "onnx/evaluate/numbers.h"

namespace mantissa::onnx {

// All places of `dims` in row-major order. Each operand has a stride for each dimension, in
// elements; 0 if it is broadcast.
struct Loops {
  Dims dims;
  std::vector<Dims> strides;
};

// The same places with fewer dimensions: dimensions of 1 go, and neighbours that lie together in
// all operands are joined. At least one dimension stays.
Loops merged(Loops loops);

// Strides of numbers that lie one after the other.
Dims strides_of(const Dims& dims);

// The dims that values of both broadcast to, or an error.
Result<Dims> broadcast(const Dims& a, const Dims& b);

// Strides that read a value of dims `from` broadcast to dims `to`.
Dims broadcast_strides(const Dims& from, const Dims& to);

// One innermost row: operand i has its numbers at offsets[i], offsets[i] + steps[i], ...
using RowFunction =
    std::function<void(const int64_t* offsets, const int64_t* steps, int64_t count)>;

// Calls the function for each innermost row. No template: its loop would be there for each operator
// and type.
void walk(const Loops& loops, const RowFunction& function);

}  // namespace mantissa::onnx
