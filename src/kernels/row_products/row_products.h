// Products of a matrix's rows with one vector, exact: the recurrent part of rnn, lstm and gru, and
// its gradients (ops/recurrent.cpp). All mantissas are int16.
//
// On the calling thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/cpu.h"

namespace mantissa::kernels {

struct RowProducts {
  const int16_t* rows = nullptr;  // [count, width]
  const int16_t* vector = nullptr;  // [width]
  int64_t count = 0, width = 0;
  int64_t block = 1;  // so many products add up within int32: block_of
};

// The block for mantissas with these bits, without the sign.
constexpr int64_t block_of(int row_bits, int vector_bits) {
  return int64_t{1} << std::max(0, 30 - row_bits - vector_bits);
}

struct RowProductKernels {
  const char* name;
  Features needs;
  // sums[i] = the sum over j of rows[i, j] * vector[j].
  void (*multiply)(const RowProducts&, int64_t* sums) noexcept;
};

extern const RowProductKernels kRowProductsReference;
#if defined(__x86_64__)
extern const RowProductKernels kRowProductsAvx2;
extern const RowProductKernels kRowProductsAvx512Vnni;
#endif

}  // namespace mantissa::kernels
