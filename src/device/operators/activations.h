// Point-wise functions of one value in a training step, from the reference
// (reference/numerics/point_functions.h).
#pragma once

#include "device/training/narrow.h"
#include "reference/numerics/point_functions.h"
#include "scalars/smooth_functions.h"

typedef struct DevPoint {
  const RefPointFunction* function;
  RefFraction slope;  // leaky ReLU, ELU
  const DevTensor* in;
  int64_t* table;  // room for the results of 256 mantissas; null: each element's is computed
} DevPoint;

REF_BEGIN

void dev_train_point(DevStep*, const DevPoint*, const DevTensor* out) REF_NOEXCEPT;
void dev_train_point_gradient(DevStep*, const DevPoint*, const DevTensor* grad_out,
                              const DevTensor* grad_in) REF_NOEXCEPT;
// The same if all slopes are 0 or 1: gradients pass unchanged, or do not pass.
void dev_train_point_mask(const DevPoint*, const DevTensor* grad_out,
                          const DevTensor* grad_in) REF_NOEXCEPT;

REF_END
