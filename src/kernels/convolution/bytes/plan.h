// How a dot (geometry.h) is cut into tasks, and the layout of its scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/convolution/geometry.h"

namespace mantissa::kernels::convolution_bytes {

using namespace convolution_geometry;

// How a dot is cut into tasks, and the layout of its scratch.
struct DotPlan {
  Dot dot;
  AxisWindow window_y, window_x;
  int planes = 1;               // byte planes of the packed source
  int64_t depth_dwords = 1;     // that the tiles take at once, at most
  int64_t band_rows = 1;        // rows (of each phase) per task
  int64_t bands = 1;            // per image
  int64_t images_per_task = 1;  // 1 if there are several bands
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

DotPlan plan_dot(const Dot& dot, int planes, int threads, int64_t depth_dwords);

// Packed dwords of one tap row of one phase: (tap_x, source channel) / 4. If the tiles take it in
// several pieces, zeros fill up the last of the weights' pieces.
inline int64_t run_dwords(const DotPlan& plan, const AxisPhase& x) {
  const int64_t dwords = ceil_div(x.taps * plan.dot.source_channels, 4);
  return dwords <= plan.depth_dwords ? dwords : round_up(dwords, plan.depth_dwords);
}

// Packed bytes of one block of 16 target channels in one phase.
inline int64_t block_bytes(const DotPlan& plan, const AxisPhase& y, const AxisPhase& x) {
  return y.taps * run_dwords(plan, x) * 64;
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

}  // namespace mantissa::kernels::convolution_bytes
