// Packing for dots: weights once per call, activations and gradients once per task.
#pragma once

#include <cstdint>

#include "kernels/convolution/geometry.h"

namespace mantissa::kernels::convolution_words {

// How one instruction set packs.
struct DotPacking {
  // weights [O, KH, KW, C] for target channels o = first..first+15, to int16 [ky][(kx, c) /
  // 2][vector][8][2], padded with zeros for missing channels and words.
  void (*forward_weights)(const ConvolutionShape& shape, const int8_t* weights, int64_t first,
                          int16_t* packed);
  // The taps of one phase for target channels c = first..first+15, to int16
  // [tap_y][(tap_x, o) / 2][vector][8][2]. Returns the largest sum of |weights| of a channel.
  int32_t (*grad_input_weights)(const ConvolutionShape& shape, const int8_t* weights,
                                const convolution_geometry::AxisPhase& phase_y,
                                const convolution_geometry::AxisPhase& phase_x, int64_t first,
                                int16_t* packed);
  // A window of one image, to int16 [rows][columns][C] with zeros outside.
  void (*window_of_int8)(const convolution_geometry::Dot& dot, const int8_t* image,
                         const convolution_geometry::Window& window, int16_t* packed);
  void (*window_of_int16)(const convolution_geometry::Dot& dot, const int16_t* image,
                          const convolution_geometry::Window& window, int16_t* packed);
};

}  // namespace mantissa::kernels::convolution_words
