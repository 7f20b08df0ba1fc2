// Shapes, element types and views of tensors, for instructions and kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "numerics/bit_statistics.h"
#include "numerics/exponent.h"

namespace mantissa {

enum class DataType : uint8_t { kUint8, kInt8, kInt16, kInt32, kInt64, kFloat, kDouble };

constexpr int64_t element_bytes(DataType type) {
  constexpr std::array<int64_t, 7> kBytes = {1, 1, 2, 4, 8, 4, 8};
  return kBytes[static_cast<size_t>(type)];
}

// The names that safetensors uses: "U8", "I8", "I16", "I32", "I64", "F32", "F64".
constexpr const char* data_type_name(DataType type) {
  constexpr std::array<const char*, 7> kNames = {"U8", "I8", "I16", "I32", "I64", "F32", "F64"};
  return kNames[static_cast<size_t>(type)];
}

// Up to six dimensions, outermost first: images are [N, H, W, C], rows [N, C], sequences [N, T, C],
// convolution weights [O, KH, KW, C], linear weights [O, C].
struct Shape {
  static constexpr int kMostDims = 6;
  int rank = 0;
  std::array<int64_t, kMostDims> dims = {1, 1, 1, 1, 1, 1};

  constexpr Shape() = default;
  // At most kMostDims dimensions.
  constexpr Shape(std::initializer_list<int64_t> list) {
    assert(list.size() <= kMostDims);
    for (const int64_t dim : list) {
      if (rank < kMostDims) dims[static_cast<size_t>(rank++)] = dim;
    }
  }

  constexpr int64_t operator[](int axis) const { return dims[axis]; }
  constexpr int64_t last() const { return rank == 0 ? 1 : dims[rank - 1]; }
  constexpr int64_t count() const {
    int64_t product = 1;
    for (int axis = 0; axis < rank; ++axis) product *= dims[axis];
    return product;
  }
  constexpr bool operator==(const Shape&) const = default;

  // The same shape with `dim` put in front; rank must be below kMostDims.
  constexpr Shape with_front(int64_t dim) const {
    assert(rank < kMostDims);
    Shape shape;
    shape.rank = rank + 1;
    shape.dims[0] = dim;
    for (int axis = 0; axis < rank; ++axis) shape.dims[axis + 1] = dims[axis];
    return shape;
  }
};

inline std::vector<int64_t> dims_of(const Shape& shape) {
  return {shape.dims.begin(), shape.dims.begin() + shape.rank};
}

inline std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int axis = 0; axis < shape.rank; ++axis) {
    text += (axis == 0 ? "" : ", ") + std::to_string(shape.dims[axis]);
  }
  return text + "]";
}

// Gives a block its exponent before the block is written: persistent state, committed at the end of
// a step. In block floating point for gradients, except with ge=exact; in dynamic fixed point for
// everything that is narrowed.
struct ExponentPredictor {
  // Measured in the last step, or kUnmeasured; in dynamic fixed point the decided exponent.
  int16_t* predicted = nullptr;
  int16_t* measured = nullptr;  // largest measured so far in this step, or kUnmeasured
  // Dynamic fixed point: this step's counts, in the warm-up and after it, and how it decides.
  NeededExponents* needed = nullptr;
  BitStatistics* bits = nullptr;
  const DecisionRule* rule = nullptr;
};

// A view: value = mantissa * 2^(*exponent). Owns nothing.
struct Tensor {
  void* data = nullptr;
  DataType type = DataType::kInt8;
  Shape shape;
  int16_t* exponent = nullptr;
  // Only for weights: how many equal, consecutive parts have an exponent each, from *exponent on;
  // the output channels, or 1.
  int64_t blocks = 1;
  // Only for values whose rows (vectors along the last dimension) have an exponent each: their
  // exponents; *exponent is the largest. Null: all have *exponent.
  int16_t* row_exponents = nullptr;
  int bits = 8;  // of narrowed mantissas, 2..16; up to 8 are int8, else int16
  // A limit for the value's exponent: its readers clip all numbers that need a larger one.
  int exponent_limit = kExponentMax;
  int key = -1;  // part of the key of stochastic rounding
  // Only for linear values under the batch-norm guard: exponent of channel c is
  // *exponent + channel_exponent[c] (<= 0) while *guarded is set.
  int8_t* channel_exponent = nullptr;
  const uint8_t* guarded = nullptr;
  uint8_t* guard_violated = nullptr;  // set if the guard is wanted from the next step on
  ExponentPredictor predictor;
  // Elements clipped since the start of the step; owned by the program.
  int64_t* saturated = nullptr;
  // Of outputs that are calibrated: counts of their wide values (kHistogramBins), per channel if
  // guarded. Null: they are not counted.
  int64_t* histogram = nullptr;

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  int64_t count() const { return shape.count(); }
  bool empty() const { return data == nullptr; }
  // Whether each channel has an exponent of its own.
  bool is_guarded() const { return guarded != nullptr && *guarded != 0; }
  int block_exponent(int64_t block) const { return exponent[blocks == 1 ? 0 : block]; }
  int row_exponent(int64_t row) const {
    return row_exponents == nullptr ? *exponent : row_exponents[row];
  }
  int largest_exponent() const { return *std::max_element(exponent, exponent + blocks); }
};
inline constexpr Tensor kNoTensor;

}  // namespace mantissa
