// How the AVX-512 VNNI kernels see a convolution: a "dot" is what forward and grad_input share.
//
// A dot computes, for each target pixel, sums over a few taps of source pixels and over the
// source's channels, by one weight matrix per tap. Forward: the source is the input. grad_input:
// the source is grad_output; with stride s the target's pixels fall into s*s phases (y mod s, x mod
// s), and each phase is a dot of stride 1 over its own taps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/convolution/convolution.h"

namespace mantissa::kernels::convolution_avx512vnni {

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t unit) { return ceil_div(a, unit) * unit; }

// Pixels of one register tile's segment, and the width that pixels are folded to where rows do not
// matter (linear layers, 1x1 convolutions): a multiple of every tile.
constexpr int kSegmentPixels = 7;
constexpr int64_t kFoldedWidth = 28;

// One axis of one phase. Target index i (of the phase) reads source indices
// i * source_step + source + j for taps j; tap j uses kernel index first_kernel + j * kernel_step.
struct AxisPhase {
  int64_t taps = 0;
  int64_t first_kernel = 0, kernel_step = 1;
  int64_t source = 0;
  int64_t first_target = 0;  // target indices are first_target + i * target_step
  int64_t count = 0;
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
  int64_t kernel_height = 1, kernel_width = 1, padding = 0;
  int64_t source_step = 1;  // packed pixels between neighbouring targets
  int64_t decimation = 1;   // source pixels between neighbouring packed pixels
  int64_t target_step = 1;  // phases per axis

  AxisPhase axis_phase(int64_t phase, int64_t kernel, int64_t target_extent) const;
  AxisWindow axis_window(int64_t kernel, int64_t target_extent) const;
  int64_t phases() const { return target_step * target_step; }
  int64_t phase_extent(int64_t target_extent) const { return ceil_div(target_extent, target_step); }
  int64_t blocks() const { return ceil_div(target_channels, 16); }
};

// A kernel that covers the whole unpadded image is a linear layer over all its pixels.
ConvolutionShape simplified(const ConvolutionShape& shape);

Dot forward_dot(const ConvolutionShape& shape, int threads);
Dot grad_input_dot(const ConvolutionShape& shape, int threads);

// How a dot is cut into tasks, and where its scratch lies.
struct DotPlan {
  Dot dot;
  AxisWindow window_y, window_x;
  int planes = 1;               // byte planes of the packed source
  int64_t band_rows = 1;        // rows (of each phase) per task
  int64_t bands = 1;            // per image
  int64_t images_per_task = 1;  // 1 where there are several bands
  int64_t window_columns = 0;
  int64_t plane_bytes = 0;
  size_t weights_bytes = 0;     // packed weights of all phases
  size_t init_offset = 0;       // int32 [phase][padded target channels]
  size_t magnitude_offset = 0;  // int32 [phase][blocks]: largest sum of |weights| of a channel
  size_t source_offset = 0;     // packed source, once per thread
  size_t total_bytes = 0;

  int64_t tasks() const {
    return bands > 1 ? dot.batch * bands : ceil_div(dot.batch, images_per_task);
  }
};

DotPlan plan_dot(const Dot& dot, int planes, int threads);

// Dwords of one tap row of one phase: (tap_x, source channel) / 4.
inline int64_t run_dwords(const Dot& dot, const AxisPhase& x) {
  return ceil_div(x.taps * dot.source_channels, 4);
}

// Packed bytes of one block of 16 target channels in one phase.
inline int64_t block_bytes(const Dot& dot, const AxisPhase& y, const AxisPhase& x) {
  return y.taps * run_dwords(dot, x) * 64;
}

// Blocks of 16 target channels are handled in pairs, an odd last one alone.
struct BlockGroup {
  int64_t first = 0;
  int size = 0;
};
inline BlockGroup group_of_block(int64_t block, int64_t blocks) {
  const int64_t first = block / 2 * 2;
  return {first, first + 2 <= blocks ? 2 : 1};
}

}  // namespace mantissa::kernels::convolution_avx512vnni
