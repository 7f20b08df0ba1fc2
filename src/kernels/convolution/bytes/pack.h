// Packing for dots: weights once per call, activations and gradients once per task.
#pragma once

#include <cstdint>

#include "kernels/convolution/bytes/plan.h"

namespace mantissa::kernels::convolution_bytes {

// The destination of the results of packing one block of 16 target channels.
struct PackedBlock {
  int8_t* weights = nullptr;  // [tap_y][dword] of 64 bytes each, `stride` bytes apart
  int64_t stride = 64;
  int64_t row_dwords = 0;        // of a tap row, the last zeros
  int32_t* init = nullptr;       // [16]: preloaded into the accumulators
  int32_t* magnitude = nullptr;  // largest sum of |weights| of a channel, or null
};

// How one instruction set packs.
struct DotPacking {
  // weights [O, KH, KW, C] for target channels o = first..first+15; init = bias - 128 * column sum.
  void (*forward_weights)(const ConvolutionShape& shape, const int8_t* weights, const int32_t* bias,
                          int64_t first, const PackedBlock& packed);
  // The taps of one phase for target channels c = first..first+15; init = -128 * column sum.
  void (*grad_input_weights)(const ConvolutionShape& shape, const int8_t* weights,
                             const AxisPhase& phase_y, const AxisPhase& phase_x, int64_t first,
                             const PackedBlock& packed);
  // int8 image to biased bytes (+128), [rows][columns][C].
  void (*bytes)(const Dot& dot, const int8_t* image, const Window& window, uint8_t* packed);
  // int16 image to two byte planes: (value >> 8) + 128, and plane_bytes later value & 255.
  void (*planes)(const Dot& dot, const int16_t* image, const Window& window, int64_t plane_bytes,
                 uint8_t* packed);
};

}  // namespace mantissa::kernels::convolution_bytes
