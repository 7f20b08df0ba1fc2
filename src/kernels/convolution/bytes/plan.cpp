#include "kernels/convolution/bytes/plan.h"

namespace mantissa::kernels::convolution_bytes {
namespace {

// Packed source of one task: stays in the L2 cache next to the weights.
constexpr int64_t kSourceBytesPerTask = 96 * 1024;
// Tasks smaller than this (about 10 microseconds) are joined.
constexpr int64_t kMultiplyAddsPerTask = 2'000'000;

}  // namespace

DotPlan plan_dot(const Dot& dot, int planes, int threads, int64_t depth_dwords) {
  DotPlan plan{.dot = dot,
               .window_y = dot.axis_window(dot.vertical(), dot.target_height),
               .window_x = dot.axis_window(dot.horizontal(), dot.target_width),
               .planes = planes,
               .depth_dwords = depth_dwords};
  const int64_t rows = dot.phase_extent(dot.target_height);
  plan.window_columns =
      (dot.phase_extent(dot.target_width) - 1) * dot.source_step + plan.window_x.reach;
  const int64_t row_bytes = plan.window_columns * dot.source_channels * dot.source_step * planes;
  const int64_t fitting = larger(1, kSourceBytesPerTask / larger(1, row_bytes));
  plan.band_rows = rows_per_band(dot, fitting, threads);
  plan.bands = ceil_div(rows, plan.band_rows);
  if (plan.bands == 1) {
    const int64_t work = dot.target_height * dot.target_width * dot.target_channels *
                         dot.source_channels * dot.kernel_height * dot.kernel_width / dot.phases();
    plan.images_per_task =
        larger(1, smaller(kMultiplyAddsPerTask / larger(1, work), dot.batch / (4 * threads)));
  }
  const int64_t window_rows = (plan.band_rows - 1) * dot.source_step + plan.window_y.reach;
  plan.plane_bytes = round_up(window_rows * plan.window_columns * dot.source_channels + 64, 64);

  for (int64_t phase = 0; phase < dot.phases(); ++phase) {
    const AxisPhase y = dot.axis_phase(phase / dot.target_step, dot.vertical(), 1);
    const AxisPhase x = dot.axis_phase(phase % dot.target_step, dot.horizontal(), 1);
    plan.weights_bytes += static_cast<size_t>(dot.blocks() * block_bytes(plan, y, x));
  }
  plan.init_offset = plan.weights_bytes;
  plan.magnitude_offset =
      plan.init_offset + static_cast<size_t>(dot.phases() * dot.blocks()) * 16 * sizeof(int32_t);
  plan.source_offset =
      plan.magnitude_offset +
      static_cast<size_t>(round_up(dot.phases() * dot.blocks() * int64_t{sizeof(int32_t)}, 64));
  plan.total_bytes = plan.source_offset + static_cast<size_t>(plan.plane_bytes) * planes * threads;
  return plan;
}

}  // namespace mantissa::kernels::convolution_bytes
