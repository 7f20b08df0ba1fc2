// Packing for the AVX2 dots: weights once per call, activations and gradients once per task.
#pragma once

#include <cstdint>

#include "kernels/convolution/geometry.h"

namespace mantissa::kernels::convolution_avx2 {

// weights [O, KH, KW, C] for target channels o = first..first+15, to int16
// [ky][(kx, c) / 2][vector][8][2] with zeros where there is no channel or word.
void pack_forward_weights(const ConvolutionShape& shape, const int8_t* weights, int64_t first,
                          int16_t* packed);

// The taps of one phase for target channels c = first..first+15, to int16
// [tap_y][(tap_x, o) / 2][vector][8][2]. Returns the largest sum of |weights| of a channel.
int32_t pack_grad_input_weights(const ConvolutionShape& shape, const int8_t* weights,
                                const convolution_geometry::AxisPhase& phase_y,
                                const convolution_geometry::AxisPhase& phase_x, int64_t first,
                                int16_t* packed);

// A window of one image of T = int8_t or int16_t, to int16 [rows][columns][C] with zeros outside.
template <typename T>
void pack_window(const convolution_geometry::Dot& dot, const T* image,
                 const convolution_geometry::Window& window, int16_t* packed);

}  // namespace mantissa::kernels::convolution_avx2
