// Sums to 8 bits by a float32 multiplier for each channel, as IEEE 754 rounds products, and so as
// ONNX Runtime requantises: out = clip(rne(float32(float32(sum) * multiplier)), least, most).
#pragma once

#include <cstdint>

#include "base/system/cpu.h"

namespace mantissa::kernels {

// sums and out are [rows][channels]. Multipliers are normal numbers or zero, of either sign.
struct Rescale {
  const int32_t* sums = nullptr;
  const float* multipliers = nullptr;
  int64_t channels = 1;
  int8_t* out = nullptr;
  int least = -127;  // 0: a ReLU, which clips without counting
  int most = 127;
};

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
