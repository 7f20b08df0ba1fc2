// Sums of products of a few rows with all rows of a matrix of 8 bits, read once as it lies in
// memory: a linear layer of one token. Kernels of convolution pack the weights first, which takes
// longer than the products of few rows.
//
// Functions compute channels [begin, end) on the calling thread.
#pragma once

#include <cstdint>

#include "base/system/cpu.h"
#include "reference/layers/row_products.h"

namespace mantissa::kernels {

// The arguments of a call (reference/layers/row_products.h).
using RowProducts = RefRowProducts;

// From this many rows on packed weights are faster.
constexpr int64_t kMostFewRows = 4;

struct RowProductKernels {
  const char* name;
  Features needs;
  void (*multiply)(const RowProducts&, int64_t begin, int64_t end) noexcept;
};

extern const RowProductKernels kRowProductsReference;
#if defined(__x86_64__)
extern const RowProductKernels kRowProductsAvx2;
extern const RowProductKernels kRowProductsAvx512Vnni;
#endif

}  // namespace mantissa::kernels
