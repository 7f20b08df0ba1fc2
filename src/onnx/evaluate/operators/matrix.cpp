// Products of matrices.
#include <algorithm>

#include "onnx/evaluate/gemm/gemm.h"
#include "onnx/evaluate/loops.h"
#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

using MatrixTypes = Types<float, double, int32_t, int64_t, uint32_t, uint64_t>;

// Any type, row by row; float has tiles. Whole numbers wrap around.
template <typename T>
void multiply_plain(int64_t rows, int64_t columns, int64_t depth, const T* a, const T* b, T* c) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t j = 0; j < columns; ++j) {
        if constexpr (std::is_integral_v<T>) {
          using U = std::make_unsigned_t<T>;
          c[i * columns + j] =
              static_cast<T>(static_cast<U>(c[i * columns + j]) +
                             static_cast<U>(a[i * depth + k]) * static_cast<U>(b[k * columns + j]));
        } else {
          c[i * columns + j] += a[i * depth + k] * b[k * columns + j];
        }
      }
    }
  }
}

Status mat_mul(OpCall& call) {
  if (call.type(0) != call.type(1)) return invalid_input("inputs of different types");
  // A vector is a matrix of one row on the left, of one column on the right; that dimension goes.
  Dims a = call.dims(0);
  Dims b = call.dims(1);
  if (a.empty() || b.empty()) return invalid_input("a single number");
  const bool row = a.size() == 1;
  const bool column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  const int64_t rows = *(a.end() - 2);
  const int64_t depth = a.back();
  const int64_t columns = b.back();
  if (*(b.end() - 2) != depth) {
    return invalid_input("dims " + to_text(call.dims(0)) + " and " + to_text(call.dims(1)) +
                         " do not go together");
  }
  const Dims a_batch(a.begin(), a.end() - 2);
  const Dims b_batch(b.begin(), b.end() - 2);
  MANTISSA_ASSIGN(const Dims batch, broadcast(a_batch, b_batch));
  Dims dims = batch;
  if (!row) dims.push_back(rows);
  if (!column) dims.push_back(columns);
  return with_type(MatrixTypes(), call.type(0), [&]<typename T>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, call.type(0), dims));
    if (call.shapes_only() || count_of(dims) == 0) return {};
    T* out = call.out<T>(0);
    const Loops loops =
        merged({batch, {broadcast_strides(a_batch, batch), broadcast_strides(b_batch, batch)}});
    walk(loops, [&](const int64_t* offsets, const int64_t* steps, int64_t count) {
      for (int64_t i = 0; i < count; ++i, out += rows * columns) {
        const T* left = call.data<T>(0) + (offsets[0] + i * steps[0]) * rows * depth;
        const T* right = call.data<T>(1) + (offsets[1] + i * steps[1]) * depth * columns;
        if constexpr (std::is_same_v<T, float>) {
          multiply(call.pool(), rows, columns, depth, {left, depth, 1}, {right, columns, 1}, out);
        } else {
          multiply_plain(rows, columns, depth, left, right, out);
        }
      }
    });
    return {};
  });
}

Status gemm(OpCall& call) {
  MANTISSA_RETURN_IF_ERROR(call.check_float(3));
  const bool turns_a = call.integer("transA", 0) != 0;
  const bool turns_b = call.integer("transB", 0) != 0;
  const float alpha = call.real("alpha", 1);
  const float beta = call.real("beta", 1);
  if (call.rank(0) != 2 || call.rank(1) != 2) return invalid_input("inputs of rank other than 2");
  const int64_t rows = call.dims(0)[turns_a ? 1 : 0];
  const int64_t depth = call.dims(0)[turns_a ? 0 : 1];
  const int64_t columns = call.dims(1)[turns_b ? 0 : 1];
  if (call.dims(1)[turns_b ? 1 : 0] != depth) {
    return invalid_input("dims " + to_text(call.dims(0)) + " and " + to_text(call.dims(1)) +
                         " do not go together");
  }
  const Dims dims = {rows, columns};
  if (call.has(2)) {
    MANTISSA_ASSIGN(const Dims both, broadcast(dims, call.dims(2)));
    if (both != dims) return invalid_input("a third input of dims " + to_text(call.dims(2)));
  }
  MANTISSA_RETURN_IF_ERROR(call.make(0, ElementType::kFloat, dims));
  if (call.shapes_only() || count_of(dims) == 0) return {};
  float* out = call.out<float>(0);
  const Matrix a =
      turns_a ? Matrix{call.data<float>(0), 1, rows} : Matrix{call.data<float>(0), depth, 1};
  const Matrix b =
      turns_b ? Matrix{call.data<float>(1), 1, depth} : Matrix{call.data<float>(1), columns, 1};
  multiply(call.pool(), rows, columns, depth, a, b, out);
  const Dims strides = call.has(2) ? broadcast_strides(call.dims(2), dims) : Dims{0, 0};
  for (int64_t i = 0; i < rows * columns; ++i) {
    out[i] *= alpha;
    if (!call.has(2)) continue;
    out[i] += beta * call.data<float>(2)[i / columns * strides[0] + i % columns * strides[1]];
  }
  return {};
}

constexpr OpRow kMatrixRows[] = {
    {"MatMul", 1, mat_mul, 2},
    {"Gemm", 6, gemm, 3, "alpha beta broadcast transA transB", 6},
    {"Gemm", 7, gemm, 3, "alpha beta transA transB", 10},
    {"Gemm", 11, gemm, {2, 3}, "alpha beta transA transB"},
};

}  // namespace

std::span<const OpRow> matrix_operators() { return kMatrixRows; }

}  // namespace mantissa::onnx
