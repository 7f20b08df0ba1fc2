// SiLU of rows of mantissas (reference/numerics/point_functions.h).
//
// A function works on the elements [begin, end) of its operands.
#pragma once

#include "reference/types.h"

// wide = q * sigmoid(q * 2^exponent), the sigmoid in Q30.
typedef struct RefSilu {
  RefConstSpan in;  // of up to 16 bits
  int exponent REF_CXX(= 0);
  int64_t* wide REF_CXX(= nullptr);
} RefSilu;

// wide = grad_out * the derivative at q * 2^exponent, in Q30.
typedef struct RefSiluGradient {
  RefConstSpan in;        // of up to 16 bits
  RefConstSpan grad_out;  // of up to 16 bits
  int exponent REF_CXX(= 0);
  int64_t* wide REF_CXX(= nullptr);
} RefSiluGradient;

REF_BEGIN

void ref_silu(const RefSilu*, int64_t begin, int64_t end) REF_NOEXCEPT;
void ref_silu_gradient(const RefSiluGradient*, int64_t begin, int64_t end) REF_NOEXCEPT;

REF_END
