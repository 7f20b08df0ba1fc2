// Rows that are brought to mean 0 and deviation 1: layer norm and RMS norm
// (ops/norms/layer_norm.cpp). A row is a vector of C mantissas q with sum S (RMS norm: 0), and
//   x^ = (C q - S) * factor * 2^-shift,  |x^| <= sqrt(C) <= 64.
//
// Functions work on one row, on the calling thread.
#pragma once

#include <cstdint>

#include "base/system/cpu.h"
#include "kernels/common/mantissa_span.h"

namespace mantissa::kernels {

constexpr int64_t kMostNormChannels = 4096;
constexpr int kNormFraction = 24;    // of x^ in int32
constexpr int kNormFactorBits = 31;  // of RowNorm::factor
// Bits that the gradient's products with the factor lose at least, so that they fit int64.
constexpr int kNormProductShift = 30;
// The most rows whose gradients, of up to 16 bits, have sums that fit int64.
constexpr int64_t kMostNormRows = int64_t{1} << 16;

struct RowNorm {
  int64_t sum = 0;
  int32_t factor = 0;
  int32_t shift = 0;
};

struct RowSums {
  int64_t sum = 0, squares = 0;
};

// The gradient of a row from the gradients of its results, dy, with d = scale dy:
//   (C d - sum of d - x^ (sum of d x^)) * factor * 2^-shift; RMS norm has no sum of d.
// The exact product of x^ and the sum is rounded to nearest even, and the whole once more.
struct RowNormGradient {
  const int32_t* x = nullptr;  // [C], x^ in 2^-24
  const int16_t* scale = nullptr;
  bool centred = true;
  int32_t factor = 0;
  int shift = kNormProductShift;  // at least that
};

struct RowNormKernels {
  const char* name;
  Features needs;
  // The mantissas have up to 16 bits.
  RowSums (*sums)(ConstMantissaSpan q, int64_t channels) noexcept;
  // x = x^ in 2^-24, to nearest even.
  void (*normalise)(ConstMantissaSpan q, const RowNorm&, int64_t channels, int32_t* x) noexcept;
  // wide = x * scale + offset; without offsets if these are null.
  void (*scale)(const int32_t* x, const int16_t* scale, const int64_t* offset, int64_t channels,
                int64_t* wide) noexcept;
  void (*gradient)(const RowNormGradient&, ConstMantissaSpan dy, int64_t channels,
                   int64_t* wide) noexcept;
  // of_scale += dy * x, of_offset += dy, of up to kMostNormRows rows and 16 bits.
  void (*add_gradients)(const int32_t* x, ConstMantissaSpan dy, int64_t channels, int64_t* of_scale,
                        int64_t* of_offset) noexcept;
};

extern const RowNormKernels kRowNormsReference;
#if defined(__x86_64__)
extern const RowNormKernels kRowNormsAvx2;
extern const RowNormKernels kRowNormsAvx512Vnni;
#endif

}  // namespace mantissa::kernels
