#include "kernels/convolution/avx512vnni_geometry.h"

namespace mantissa::kernels::convolution_avx512vnni {
namespace {

// Packed source of one task: stays in the L2 cache next to the weights.
constexpr int64_t kSourceBytesPerTask = 96 * 1024;
// Tasks smaller than this (about 10 microseconds) are joined.
constexpr int64_t kMultiplyAddsPerTask = 2'000'000;

// Folds all pixels of all images into one image of a convenient width: for dots without neighbours.
void fold_pixels(Dot& dot, int threads) {
  const int64_t pixels = dot.batch * dot.target_height * dot.target_width;
  int64_t rows = ceil_div(pixels, kFoldedWidth);
  rows = smaller(round_up(rows, threads), pixels);
  dot.target_width = ceil_div(pixels, rows);
  dot.target_height = ceil_div(pixels, dot.target_width);
  dot.last_width = pixels - (dot.target_height - 1) * dot.target_width;
  dot.source_height = dot.target_height;
  dot.source_width = dot.target_width;
  dot.batch = 1;
}

bool is_pointwise(const ConvolutionShape& s) {
  return s.kernel_height == 1 && s.kernel_width == 1 && s.padding == 0;
}

// A stride of 1 where only one pixel is computed on each axis.
bool is_foldable(const ConvolutionShape& s) {
  return is_pointwise(s) && s.stride == 1 && s.in_height == s.out_height &&
         s.in_width == s.out_width;
}

}  // namespace

AxisPhase Dot::axis_phase(int64_t phase, int64_t kernel, int64_t target_extent) const {
  AxisPhase axis;
  axis.first_target = phase;
  axis.count = target_extent > phase ? ceil_div(target_extent - phase, target_step) : 0;
  if (!transposed) {
    axis.taps = kernel;
    axis.source = decimation == 1 ? -padding : 0;
    return axis;
  }
  const int64_t residue = (phase + padding) % target_step;
  axis.taps = residue < kernel ? ceil_div(kernel - residue, target_step) : 0;
  axis.first_kernel = residue + target_step * (axis.taps - 1);
  axis.kernel_step = -target_step;
  axis.source = (phase + padding - residue) / target_step - (axis.taps - 1);
  return axis;
}

AxisWindow Dot::axis_window(int64_t kernel, int64_t target_extent) const {
  int64_t begin = INT64_MAX;
  int64_t end = INT64_MIN;
  for (int64_t phase = 0; phase < target_step; ++phase) {
    const AxisPhase axis = axis_phase(phase, kernel, target_extent);
    if (axis.taps == 0 || axis.count == 0) continue;
    begin = smaller(begin, axis.source);
    end = larger(end, axis.source + axis.taps);
  }
  if (end < begin) return {0, 0};
  return {begin, end - begin};
}

ConvolutionShape simplified(const ConvolutionShape& shape) {
  ConvolutionShape s = shape;
  if (s.padding == 0 && s.kernel_height == s.in_height && s.kernel_width == s.in_width &&
      s.out_height == 1 && s.out_width == 1) {
    s.in_channels *= s.in_height * s.in_width;
    s.in_height = s.in_width = s.kernel_height = s.kernel_width = 1;
    s.stride = 1;
  }
  return s;
}

Dot forward_dot(const ConvolutionShape& shape, int threads) {
  const ConvolutionShape s = simplified(shape);
  Dot dot;
  dot.batch = s.batch;
  dot.source_height = s.in_height;
  dot.source_width = dot.last_width = s.in_width;
  dot.source_channels = s.in_channels;
  dot.target_height = s.out_height;
  dot.target_width = s.out_width;
  dot.target_channels = s.out_channels;
  dot.kernel_height = s.kernel_height;
  dot.kernel_width = s.kernel_width;
  dot.padding = s.padding;
  dot.source_step = s.stride;
  if (is_foldable(s)) {
    fold_pixels(dot, threads);
  } else if (is_pointwise(s)) {
    dot.decimation = s.stride;
    dot.source_step = 1;
  }
  return dot;
}

Dot grad_input_dot(const ConvolutionShape& shape, int threads) {
  const ConvolutionShape s = simplified(shape);
  Dot dot;
  dot.transposed = true;
  dot.batch = s.batch;
  dot.source_height = s.out_height;
  dot.source_width = dot.last_width = s.out_width;
  dot.source_channels = s.out_channels;
  dot.target_height = s.in_height;
  dot.target_width = s.in_width;
  dot.target_channels = s.in_channels;
  dot.kernel_height = s.kernel_height;
  dot.kernel_width = s.kernel_width;
  dot.padding = s.padding;
  dot.target_step = s.stride;
  if (is_foldable(s)) fold_pixels(dot, threads);
  return dot;
}

DotPlan plan_dot(const Dot& dot, int planes, int threads) {
  DotPlan plan{.dot = dot,
               .window_y = dot.axis_window(dot.kernel_height, dot.target_height),
               .window_x = dot.axis_window(dot.kernel_width, dot.target_width),
               .planes = planes};
  const int64_t rows = dot.phase_extent(dot.target_height);
  plan.window_columns =
      (dot.phase_extent(dot.target_width) - 1) * dot.source_step + plan.window_x.reach;
  const int64_t row_bytes = plan.window_columns * dot.source_channels * dot.source_step * planes;
  const int64_t fitting = larger(1, kSourceBytesPerTask / larger(1, row_bytes));
  const int64_t bands_wanted = larger(ceil_div(rows, fitting), ceil_div(2 * threads, dot.batch));
  plan.band_rows = ceil_div(rows, smaller(bands_wanted, rows));
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
    const AxisPhase y = dot.axis_phase(phase / dot.target_step, dot.kernel_height, 1);
    const AxisPhase x = dot.axis_phase(phase % dot.target_step, dot.kernel_width, 1);
    plan.weights_bytes += static_cast<size_t>(dot.blocks() * block_bytes(dot, y, x));
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

}  // namespace mantissa::kernels::convolution_avx512vnni
