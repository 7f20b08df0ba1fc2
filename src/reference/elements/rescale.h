// Sums to 8 bits by a float32 multiplier for each channel, as IEEE 754 rounds products, and so as
// ONNX Runtime requantises: out = clip(rne(float32(float32(sum) * multiplier)), least, most). By
// integer instructions.
#pragma once

#include "reference/types.h"

// sums and out are [rows][channels]. Multipliers are float32 numbers, normal ones or zero, of
// either sign.
typedef struct RefRescale {
  const int32_t* sums REF_CXX(= nullptr);
  const float* multipliers REF_CXX(= nullptr);
  int64_t channels REF_CXX(= 1);
  int8_t* out REF_CXX(= nullptr);
  int least REF_CXX(= -127);  // 0: a ReLU, which clips without counting
  int most REF_CXX(= 127);
} RefRescale;

REF_BEGIN

// Returns how many results were clipped.
int64_t ref_rescale_rows(const RefRescale*, int64_t begin_row, int64_t end_row) REF_NOEXCEPT;
// The same of element i of channel c alone.
bool ref_rescale_element(const RefRescale*, int64_t i, int64_t c) REF_NOEXCEPT;

REF_END
