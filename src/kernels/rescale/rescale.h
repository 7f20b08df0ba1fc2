// Sums to 8 bits by a float32 multiplier for each channel, as IEEE 754 rounds products, and so as
// ONNX Runtime requantises: out = clip(rne(float32(float32(sum) * multiplier)), least, most).
#pragma once

#include <cstdint>

#include "base/system/cpu.h"
#include "reference/elements/rescale.h"

namespace mantissa::kernels {

using Rescale = RefRescale;

struct RescaleKernels {
  const char* name;
  Features needs;
  // Returns how many results were clipped.
  int64_t (*rescale)(const Rescale&, int64_t begin_row, int64_t end_row) noexcept;
};

extern const RescaleKernels kRescaleReference;
extern const RescaleKernels kRescaleAvx2;
extern const RescaleKernels kRescaleAvx512Vnni;

}  // namespace mantissa::kernels
