// Rows that are brought to mean 0 and deviation 1: layer norm and RMS norm. A row is a vector of C
// <= 4096 mantissas q with sum S (RMS norm: 0), and
//   x^ = (C q - S) * factor * 2^-shift,  |x^| <= sqrt(C) <= 64.
#pragma once

#include "reference/types.h"

enum {
  REF_NORM_FRACTION = 24,     // of x^ in int32
  REF_NORM_FACTOR_BITS = 31,  // of RefRowNorm's factor
  // Bits that the gradient's products with the factor lose at least, so that they fit int64.
  REF_NORM_PRODUCT_SHIFT = 30
};

// Its factor follows from the row's sums (scalars/row_norm.h).
typedef struct RefRowNorm {
  int64_t sum REF_CXX(= 0);
  int32_t factor REF_CXX(= 0);
  int32_t shift REF_CXX(= 0);
} RefRowNorm;

typedef struct RefRowSums {
  int64_t sum REF_CXX(= 0), squares REF_CXX(= 0);
} RefRowSums;

// The gradient of a row from the gradients of its results, dy, with d = scale dy:
//   (C d - sum of d - x^ (sum of d x^)) * factor * 2^-shift; RMS norm has no sum of d.
// The exact product of x^ and the sum is rounded to nearest even, and the whole once more.
typedef struct RefRowNormGradient {
  const int32_t* x REF_CXX(= nullptr);  // [C], x^ in 2^-24
  const int16_t* scale REF_CXX(= nullptr);
  bool centred REF_CXX(= true);
  int32_t factor REF_CXX(= 0);
  int shift REF_CXX(= REF_NORM_PRODUCT_SHIFT);  // at least that
} RefRowNormGradient;

REF_BEGIN

// The mantissas have up to 16 bits.
RefRowSums ref_row_sums(RefConstSpan q, int64_t channels) REF_NOEXCEPT;
// x = x^ in 2^-24, to nearest even.
void ref_normalise_row(RefConstSpan q, const RefRowNorm*, int64_t channels,
                       int32_t* x) REF_NOEXCEPT;
// wide = x * scale + offset; without offsets if these are null.
void ref_scale_row(const int32_t* x, const int16_t* scale, const int64_t* offset, int64_t channels,
                   int64_t* wide) REF_NOEXCEPT;
// dy of up to 32 bits.
void ref_row_norm_gradient(const RefRowNormGradient*, RefConstSpan dy, int64_t channels,
                           int64_t* wide) REF_NOEXCEPT;
// of_scale += dy * x, of_offset += dy, of up to 2^16 rows and 16 bits.
void ref_add_row_gradients(const int32_t* x, RefConstSpan dy, int64_t channels, int64_t* of_scale,
                           int64_t* of_offset) REF_NOEXCEPT;

REF_END
