#include "onnx/evaluate/gemm/gemm.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/checked.h"
#include "base/system/cpu.h"
#include "onnx/evaluate/gemm/kernels.h"
#include "onnx/evaluate/gemm/tile.h"

namespace mantissa::onnx {
namespace {

MultiplyTile choose_tile() {
#if defined(__x86_64__)
  if (cpu_features().contains(kNeedsAvx2)) return multiply_tile_avx2;
#endif
  return multiply_tile;
}

}  // namespace

int64_t packed_size(int64_t rows, int64_t depth) { return round_up(rows, kTileRows) * depth; }

void pack_rows(const float* a, int64_t rows, int64_t depth, int64_t row_stride,
               int64_t depth_stride, float* packed) {
  for (int64_t row = 0; row < rows; row += kTileRows) {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t i = 0; i < kTileRows; ++i) {
        *packed++ = row + i < rows ? a[(row + i) * row_stride + k * depth_stride] : 0.0f;
      }
    }
  }
}

void multiply_panel(const float* packed, int64_t rows, int64_t depth, const float* panel,
                    const float* starts, float* c, int64_t c_stride, int64_t columns) {
  static const MultiplyTile tile = choose_tile();
  float sums[kTileRows * kTileColumns];
  for (int64_t row = 0; row < rows; row += kTileRows) {
    tile(packed + row * depth, panel, depth, sums);
    for (int64_t i = 0; i < std::min(kTileRows, rows - row); ++i) {
      const float start = starts == nullptr ? 0.0f : starts[row + i];
      float* out = c + (row + i) * c_stride;
      for (int64_t j = 0; j < columns; ++j) out[j] = sums[i * kTileColumns + j] + start;
    }
  }
}

void multiply(ThreadPool& pool, int64_t rows, int64_t columns, int64_t depth, const Matrix& a,
              const Matrix& b, float* c) {
  std::vector<float> packed(packed_size(rows, depth));
  pack_rows(a.data, rows, depth, a.row_stride, a.column_stride, packed.data());
  std::vector<std::vector<float>> panels(pool.size());
  pool.parallel_for(divide_up(columns, kTileColumns), [&](int64_t task, int worker) {
    std::vector<float>& panel = panels[worker];
    panel.resize(kTileColumns * depth);
    const int64_t first = task * kTileColumns;
    const int64_t count = std::min(kTileColumns, columns - first);
    for (int64_t k = 0; k < depth; ++k) {
      const float* row = b.data + k * b.row_stride + first * b.column_stride;
      float* out = panel.data() + k * kTileColumns;
      for (int64_t j = 0; j < count; ++j) out[j] = row[j * b.column_stride];
      std::fill(out + count, out + kTileColumns, 0.0f);
    }
    multiply_panel(packed.data(), rows, depth, panel.data(), nullptr, c + first, columns, count);
  });
}

}  // namespace mantissa::onnx
