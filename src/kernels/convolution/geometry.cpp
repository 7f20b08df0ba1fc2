#include "kernels/convolution/geometry.h"

#include <algorithm>

namespace mantissa::kernels::convolution_geometry {
namespace {

// Folds all pixels of all images into one image of a convenient width: for dots without neighbours.
void fold_pixels(Dot& dot, int threads, int64_t width) {
  const int64_t pixels = dot.batch * dot.target_height * dot.target_width;
  int64_t rows = ceil_div(pixels, width);
  rows = smaller(round_up(rows, threads), pixels);
  dot.target_width = ceil_div(pixels, rows);
  dot.target_height = ceil_div(pixels, dot.target_width);
  dot.last_width = pixels - (dot.target_height - 1) * dot.target_width;
  dot.source_height = dot.target_height;
  dot.source_width = dot.target_width;
  dot.batch = 1;
}

bool is_pointwise(const ConvolutionShape& s) {
  return s.kernel_height == 1 && s.kernel_width == 1 && s.padding_height == 0 &&
         s.padding_width == 0;
}

// A stride of 1 if only one pixel is computed on each axis.
bool is_foldable(const ConvolutionShape& s) {
  return is_pointwise(s) && s.stride_height == 1 && s.in_height == s.out_height &&
         s.in_width == s.out_width;
}

}  // namespace

AxisPhase Dot::axis_phase(int64_t phase, KernelAxis kernel, int64_t target_extent) const {
  AxisPhase axis;
  axis.first_target = phase;
  axis.count = target_extent > phase ? ceil_div(target_extent - phase, target_step) : 0;
  if (!transposed) {
    axis.taps = kernel.taps;
    axis.source = decimation == 1 ? -kernel.padding : 0;
    return axis;
  }
  const int64_t residue = (phase + kernel.padding) % target_step;
  axis.taps = residue < kernel.taps ? ceil_div(kernel.taps - residue, target_step) : 0;
  axis.first_kernel = residue + target_step * (axis.taps - 1);
  axis.kernel_step = -target_step;
  axis.source = (phase + kernel.padding - residue) / target_step - (axis.taps - 1);
  return axis;
}

AxisWindow Dot::axis_window(KernelAxis kernel, int64_t target_extent) const {
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
  if (s.padding_height == 0 && s.padding_width == 0 && s.kernel_height == s.in_height &&
      s.kernel_width == s.in_width && s.out_height == 1 && s.out_width == 1) {
    s.in_channels *= s.in_height * s.in_width;
    s.in_height = s.in_width = s.kernel_height = s.kernel_width = 1;
    s.stride_height = s.stride_width = 1;
  }
  return s;
}

int64_t rows_per_band(const Dot& dot, int64_t fitting, int threads) {
  const int64_t rows = dot.phase_extent(dot.target_height);
  const int64_t wanted = larger(ceil_div(rows, fitting), ceil_div(2 * threads, dot.batch));
  const auto is_uneven = [&](int64_t band) {
    const int64_t tasks = dot.batch * ceil_div(rows, band);
    return tasks < 8 * threads && tasks % threads != 0;
  };
  const int64_t longest = ceil_div(rows, smaller(wanted, rows));
  for (int64_t band = longest; band >= 1; --band) {
    if (!is_uneven(band)) return ceil_div(rows, ceil_div(rows, band));
  }
  return longest;
}

Dot forward_dot(const ConvolutionShape& shape, int threads, int64_t folded_width) {
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
  dot.padding_height = s.padding_height;
  dot.padding_width = s.padding_width;
  dot.source_step = s.stride_height;
  if (is_foldable(s)) {
    fold_pixels(dot, threads, folded_width);
  } else if (is_pointwise(s)) {
    dot.decimation = s.stride_height;
    dot.source_step = 1;
  }
  return dot;
}

Dot grad_input_dot(const ConvolutionShape& shape, int threads, int64_t folded_width) {
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
  dot.padding_height = s.padding_height;
  dot.padding_width = s.padding_width;
  dot.target_step = s.stride_height;
  if (is_foldable(s)) fold_pixels(dot, threads, folded_width);
  return dot;
}

RowParts row_parts(const Dot& dot, const Window& window, int64_t row) {
  RowParts parts;
  const int64_t source_row = (window.first_row + row) * dot.decimation;
  if (source_row < 0 || source_row >= dot.source_height) {
    parts.left = window.columns;
    return parts;
  }
  const bool last = source_row == dot.source_height - 1;
  const int64_t width = ceil_div(last ? dot.last_width : dot.source_width, dot.decimation);
  const int64_t end = smaller(width, window.first_column + window.columns);
  parts.from = larger(0, window.first_column);
  parts.left = smaller(window.columns, parts.from - window.first_column);
  parts.copied = larger(0, end - parts.from);
  parts.right = window.columns - parts.left - parts.copied;
  return parts;
}

bool needs_no_sums(const ConvolutionGradWeights& args) {
  if (args.shift <= 62 || args.totals.bits == 32) return false;
  if (!args.adds) std::fill_n(args.totals.as<int64_t>(), args.shape.weights_count(), 0);
  return true;
}

}  // namespace mantissa::kernels::convolution_geometry
