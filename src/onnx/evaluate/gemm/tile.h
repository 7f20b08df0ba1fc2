// One tile of a product of matrices. Compiled for more than one instruction set: so it has no
// include guards, and needs the includes of the files that include it.

namespace mantissa::onnx {
namespace {

// Without contraction to multiply-add: the same bits everywhere.
typedef float Vector __attribute__((vector_size(32)));  // NOLINT: aliases lose the attribute

void multiply_tile(const float* a, const float* b, int64_t depth, float* c) {
  constexpr int kVectors = kTileColumns / 8;
  Vector sums[kTileRows][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k) {
    Vector row[kVectors];
    __builtin_memcpy(row, b + k * kTileColumns, sizeof(row));
    for (int i = 0; i < kTileRows; ++i) {
      for (int v = 0; v < kVectors; ++v) sums[i][v] += a[k * kTileRows + i] * row[v];
    }
  }
  __builtin_memcpy(c, sums, sizeof(sums));
}

}  // namespace
}  // namespace mantissa::onnx
