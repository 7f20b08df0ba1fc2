// Loops over several operands at once, whose strides differ: broadcasting, slices, transposition.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "onnx/evaluate/numbers.h"

namespace mantissa::onnx {

// All places of `dims` in row-major order. Each operand has a stride for each dimension, in
// elements; 0 where it is broadcast.
struct Loops {
  Dims dims;
  std::vector<Dims> strides;
};

// The same places with fewer dimensions: those of 1 go, and neighbours that all operands walk
// through in one go are joined. At least one dimension stays.
Loops merged(Loops loops);

// Strides of numbers that lie one after the other.
Dims strides_of(const Dims& dims);

// The dims that values of both broadcast to, or an error.
Result<Dims> broadcast(const Dims& a, const Dims& b);

// Strides by which a value of dims `from` is read as one of dims `to`, which it broadcasts to.
Dims broadcast_strides(const Dims& from, const Dims& to);

// Calls function(offsets, steps, count) for each innermost row: operand i has its numbers at
// offsets[i], offsets[i] + steps[i], ...
template <typename Function>
void walk(const Loops& loops, Function&& function) {
  const size_t operands = loops.strides.size();
  const size_t rank = loops.dims.size();
  if (count_of(loops.dims) == 0) return;
  std::vector<int64_t> steps(operands);
  for (size_t i = 0; i < operands; ++i) steps[i] = loops.strides[i][rank - 1];
  std::vector<int64_t> offsets(operands);
  std::vector<int64_t> place(rank);
  while (true) {
    function(offsets.data(), steps.data(), loops.dims[rank - 1]);
    size_t d = rank - 1;
    while (d > 0) {
      --d;
      ++place[d];
      for (size_t i = 0; i < operands; ++i) offsets[i] += loops.strides[i][d];
      if (place[d] < loops.dims[d]) break;
      for (size_t i = 0; i < operands; ++i) offsets[i] -= loops.strides[i][d] * place[d];
      place[d] = 0;
      if (d == 0) return;
    }
    if (rank == 1) return;
  }
}

}  // namespace mantissa::onnx
