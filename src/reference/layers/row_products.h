// Sums of products of a few rows with all rows of a matrix of 8 bits, read once as it lies in
// memory: a linear layer of one token.
#pragma once

#include "reference/types.h"

// sums[r, o] = the sum over c of input[r, c] * weights[o, c], exact. Sums are int32 if the input
// has up to 8 bits, else int64.
typedef struct RefRowProducts {
  RefConstSpan input;  // [rows, depth], 2 to 16 bits
  const int8_t* weights REF_CXX(= nullptr);  // [channels, depth]
  int64_t rows REF_CXX(= 1);
  int64_t channels REF_CXX(= 0);
  int64_t depth REF_CXX(= 0);  // up to 65,000
  void* sums REF_CXX(= nullptr);  // [rows, channels]
} RefRowProducts;

REF_BEGIN

// For the channels [begin, end).
void ref_row_products(const RefRowProducts*, int64_t begin, int64_t end) REF_NOEXCEPT;

REF_END
