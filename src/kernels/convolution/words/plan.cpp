#include "kernels/convolution/words/plan.h"

namespace mantissa::kernels::convolution_words {
namespace {

// A multiple of the tile, for rows of folded pixels.
constexpr int64_t kFoldedWidth = 4 * kTilePixels;
// Packed source of one task: stays in the L2 cache next to the weights.
constexpr int64_t kSourceBytesPerTask = 128 * 1024;
// Tasks smaller than this (about 20 microseconds) are joined.
constexpr int64_t kMultiplyAddsPerTask = 1'000'000;
// Packed weights: most that all cores share, and that one task has.
constexpr int64_t kSharedWeightsBytes = 128 * 1024;
constexpr int64_t kSliceBytes = 256 * 1024;

void plan_bands(DotPlan& plan, int threads) {
  const Dot& dot = plan.dot;
  const int64_t rows = dot.phase_extent(dot.target_height);
  plan.window_columns =
      (dot.phase_extent(dot.target_width) - 1) * dot.source_step + plan.window_x.reach;
  const int64_t row_bytes = plan.window_columns * dot.source_channels * dot.source_step * 2;
  const int64_t fitting = larger(1, kSourceBytesPerTask / larger(1, row_bytes));
  plan.band_rows = rows_per_band(dot, fitting, threads);
  plan.bands = ceil_div(rows, plan.band_rows);
  if (plan.bands == 1) {
    const int64_t work = dot.target_height * dot.target_width * dot.target_channels *
                         dot.source_channels * dot.kernel_height * dot.kernel_width / dot.phases();
    plan.bands_per_task =
        larger(1, smaller(kMultiplyAddsPerTask / larger(1, work), dot.batch / (4 * threads)));
  }
  const int64_t window_rows = (plan.band_rows - 1) * dot.source_step + plan.window_y.reach;
  // The last dword of an odd run reaches one word further.
  plan.source_bytes = round_up(window_rows * plan.window_columns * dot.source_channels * 2 + 2, 64);
}

// If there are many weights, each task has some of them, which its core packs and keeps to itself.
// Otherwise the weights are packed once and each task has some of the pixels.
void plan_slices(DotPlan& plan, int64_t weights_bytes, int threads) {
  const Dot& dot = plan.dot;
  if (weights_bytes < kSharedWeightsBytes || dot.blocks() < 4 * threads || dot.has_gaps()) return;
  const int64_t wanted = larger(2 * threads, ceil_div(weights_bytes, kSliceBytes));
  plan.slices = smaller(round_up(wanted, threads), dot.blocks());
}

DotPlan plan_dot(const Dot& dot, int threads) {
  DotPlan plan{.dot = dot,
               .window_y = dot.axis_window(dot.vertical(), dot.target_height),
               .window_x = dot.axis_window(dot.horizontal(), dot.target_width)};
  plan_bands(plan, threads);
  int64_t weights_bytes = 0;
  for (int64_t phase = 0; phase < dot.phases(); ++phase) {
    const AxisPhase y = dot.axis_phase(phase / dot.target_step, dot.vertical(), 1);
    const AxisPhase x = dot.axis_phase(phase % dot.target_step, dot.horizontal(), 1);
    weights_bytes += dot_vectors(dot) * vector_bytes(dot, y, x);
  }
  plan_slices(plan, weights_bytes, threads);
  const auto after = [](size_t offset, int64_t bytes) {
    return offset + static_cast<size_t>(round_up(bytes, 64));
  };
  plan.bias_offset = after(0, weights_bytes);
  plan.magnitude_offset = after(plan.bias_offset, dot.blocks() * 16 * int64_t{sizeof(int32_t)});
  plan.source_offset =
      after(plan.magnitude_offset, dot.phases() * dot.blocks() * int64_t{sizeof(int32_t)});
  plan.total_bytes = after(plan.source_offset, plan.source_bytes * threads);
  return plan;
}

}  // namespace

DotPlan plan_forward(const ConvolutionShape& shape, int threads) {
  return plan_dot(forward_dot(shape, threads, kFoldedWidth), threads);
}

DotPlan plan_grad_input(const ConvolutionShape& shape, int threads) {
  return plan_dot(grad_input_dot(shape, threads, kFoldedWidth), threads);
}

}  // namespace mantissa::kernels::convolution_words
