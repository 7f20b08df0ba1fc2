// How the drivers see a convolution: a "dot" is the part that forward and grad_input share.
//
// A dot computes, for each target pixel, sums over a few taps of source pixels and over the
// source's channels, by one weight matrix per tap. Forward: the source is the input. grad_input:
// the source is grad_output; with stride s the target's pixels fall into s*s phases (y mod s, x mod
// s), and each phase is a dot of stride 1 over its own taps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/convolution/convolution.h"

namespace mantissa::kernels::convolution_geometry {

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t unit) { return ceil_div(a, unit) * unit; }

// One axis of one phase. Target index i (of the phase) reads source indices
// i * source_step + source + j for taps j; tap j uses kernel index first_kernel + j * kernel_step.
struct AxisPhase {
  int64_t taps = 0;
  int64_t first_kernel = 0, kernel_step = 1;
  int64_t source = 0;
  int64_t first_target = 0;  // target indices are first_target + i * target_step
  int64_t count = 0;
};

// The kernel along one axis.
struct KernelAxis {
  int64_t taps = 1, padding = 0;
};

// The part of a source axis that any phase reads.
struct AxisWindow {
  int64_t begin = 0;  // of target index 0
  int64_t reach = 0;  // source indices that one target index needs, over all phases
};

struct Dot {
  bool transposed = false;  // grad_input
  int64_t batch = 1;
  int64_t source_height = 1, source_width = 1, source_channels = 1;
  int64_t target_height = 1, target_width = 1, target_channels = 1;
  int64_t last_width = 1;  // valid pixels in the last row of a folded source (and target)
  int64_t kernel_height = 1, kernel_width = 1, padding_height = 0, padding_width = 0;
  int64_t source_step = 1;  // packed pixels between neighbouring targets
  int64_t decimation = 1;   // source pixels between neighbouring packed pixels
  int64_t target_step = 1;  // phases per axis

  KernelAxis vertical() const { return {kernel_height, padding_height}; }
  KernelAxis horizontal() const { return {kernel_width, padding_width}; }
  AxisPhase axis_phase(int64_t phase, KernelAxis kernel, int64_t target_extent) const;
  AxisWindow axis_window(KernelAxis kernel, int64_t target_extent) const;
  // Whether some phase has no taps.
  bool has_gaps() const { return target_step > kernel_height || target_step > kernel_width; }
  int64_t phases() const { return target_step * target_step; }
  int64_t phase_extent(int64_t target_extent) const { return ceil_div(target_extent, target_step); }
  int64_t blocks() const { return ceil_div(target_channels, 16); }  // of 16 channels
  // Target elements of an image that rows [0, rows) of all phases have.
  int64_t target_elements(int64_t rows) const {
    const bool folded = last_width != source_width;
    const int64_t pixels = target_height * target_width - (folded ? target_width - last_width : 0);
    return smaller(rows * target_step * target_width, pixels) * target_channels;
  }
};

// A kernel that covers the whole unpadded image is a linear layer over all its pixels.
ConvolutionShape simplified(const ConvolutionShape& shape);

// If rows do not matter (linear layers, 1x1 convolutions) all pixels are folded to one image of
// about `folded_width` columns and, if it has that many pixels, a multiple of `threads` rows.
Dot forward_dot(const ConvolutionShape& shape, int threads, int64_t folded_width);
Dot grad_input_dot(const ConvolutionShape& shape, int threads, int64_t folded_width);

// A window of one source image: rows first_row.., columns first_column.., in packed pixels.
struct Window {
  int64_t first_row = 0, rows = 0;
  int64_t first_column = 0, columns = 0;
};

// One row of a window: zeros, a copy of packed pixels [from, from + copied), zeros.
struct RowParts {
  int64_t left = 0, copied = 0, right = 0;
  int64_t from = 0;
};
RowParts row_parts(const Dot& dot, const Window& window, int64_t row);

// Rows (of each phase) of a task: at most `fitting`, and few enough for two tasks per thread. If
// there are few tasks, each thread gets the same number if possible.
int64_t rows_per_band(const Dot& dot, int64_t fitting, int threads);

// Whether the shift leaves nothing of any sum of grad_weights: then all is done.
bool needs_no_sums(const ConvolutionGradWeights& args);

}  // namespace mantissa::kernels::convolution_geometry
