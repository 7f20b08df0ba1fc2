// How a dot (geometry.h) is cut into tasks, and the layout of its scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/convolution/geometry.h"
#include "kernels/convolution/words/tile.h"

namespace mantissa::kernels::convolution_words {

using namespace convolution_geometry;

struct DotPlan {
  Dot dot;
  AxisWindow window_y, window_x;
  int64_t band_rows = 1;       // rows (of each phase) per task
  int64_t bands = 1;           // per image
  int64_t bands_per_task = 1;  // more than 1 if these are whole images
  int64_t slices = 1;          // of target channels' groups; if more than 1, one task each
  int64_t window_columns = 0;
  int64_t source_bytes = 0;     // packed source of one task
  size_t bias_offset = 0;       // int32 [padded target channels], after the packed weights
  size_t magnitude_offset = 0;  // int32 [phase][group]: largest sum of |weights| of a channel
  size_t source_offset = 0;     // packed source, once per thread
  size_t total_bytes = 0;

  int64_t all_bands() const { return dot.batch * bands; }
};

DotPlan plan_forward(const ConvolutionShape& shape, int threads);
DotPlan plan_grad_input(const ConvolutionShape& shape, int threads);

// Channels of one group of 16, and how many vectors they take.
inline int64_t group_channels(const Dot& dot, int64_t group) {
  return smaller(kGroupChannels, dot.target_channels - group * kGroupChannels);
}

// Dwords of one tap row of one phase: (tap_x, source channel) / 2.
inline int64_t run_dwords(const Dot& dot, const AxisPhase& x) {
  return ceil_div(x.taps * dot.source_channels, 2);
}

// Packed bytes of one vector of target channels in one phase.
inline int64_t vector_bytes(const Dot& dot, const AxisPhase& y, const AxisPhase& x) {
  return y.taps * run_dwords(dot, x) * 32;
}
inline int64_t dot_vectors(const Dot& dot) { return ceil_div(dot.target_channels, kLanes); }

}  // namespace mantissa::kernels::convolution_words
