// Products of float matrices, in tiles that stay in registers. Each sum is in the order of the
// depth, whatever the instruction set and the number of threads.
#pragma once

#include <cstdint>

#include "base/system/thread_pool.h"

namespace mantissa::onnx {

constexpr int64_t kTileRows = 4;
constexpr int64_t kTileColumns = 16;

// Numbers that pack_rows writes.
int64_t packed_size(int64_t rows, int64_t depth);

// The left matrix, a[row * row_stride + k * depth_stride], as tiles take it: kTileRows rows at a
// time, for each k their numbers, with 0 for rows that are not there.
void pack_rows(const float* a, int64_t rows, int64_t depth, int64_t row_stride,
               int64_t depth_stride, float* packed);

// c[row][column] = start of the row + sum over k of a[row][k] * panel[k][column], for up to
// kTileColumns columns; `panel` has kTileColumns numbers for each k. starts may be null: 0.
void multiply_panel(const float* packed, int64_t rows, int64_t depth, const float* panel,
                    const float* starts, float* c, int64_t c_stride, int64_t columns);

struct Matrix {
  const float* data;
  int64_t row_stride;
  int64_t column_stride;
};

// c = a b, c being rows x columns, row by row.
void multiply(ThreadPool& pool, int64_t rows, int64_t columns, int64_t depth, const Matrix& a,
              const Matrix& b, float* c);

}  // namespace mantissa::onnx
