// Rows that are brought to mean 0 and deviation 1: layer norm and RMS norm
// (ops/norms/layer_norm.cpp). A row is a vector of C mantissas q with sum S (RMS norm: 0), and
//   x^ = (C q - S) * factor * 2^-shift,  |x^| <= sqrt(C) <= 64.
//
// Functions work on one row, on the calling thread.
#pragma once

#include <cstdint>

#include "base/system/cpu.h"
#include "kernels/common/mantissa_span.h"
#include "reference/layers/row_norms.h"

namespace mantissa::kernels {

constexpr int64_t kMostNormChannels = 4096;
constexpr int kNormFraction = REF_NORM_FRACTION;       // of x^ in int32
constexpr int kNormFactorBits = REF_NORM_FACTOR_BITS;  // of RowNorm::factor
constexpr int kNormProductShift = REF_NORM_PRODUCT_SHIFT;
// The most rows whose gradients, of up to 16 bits, have sums that fit int64.
constexpr int64_t kMostNormRows = int64_t{1} << 16;

// What a call takes and gives (reference/layers/row_norms.h).
using RowNorm = RefRowNorm;
using RowSums = RefRowSums;
using RowNormGradient = RefRowNormGradient;

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
