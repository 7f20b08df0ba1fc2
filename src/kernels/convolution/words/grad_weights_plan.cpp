#include "kernels/convolution/words/grad_weights.h"

namespace mantissa::kernels::convolution_words {
namespace {

// A tile's part of a unit, packed grad_output and the input's cache lines, fits the L1 cache.
constexpr int64_t kPreferredPositions = 128;
// Packed bytes of a unit: stay in the L2 cache.
constexpr int64_t kUnitBytes = 192 * 1024;
constexpr int64_t kSmallWeights = 64 * 1024;  // threads keep sums of their own up to this
constexpr int64_t kSliceWeights = 48 * 1024;
constexpr int64_t kSmallestSlice = 1024;

// Without neighbours, pixels are images.
ConvolutionShape folded(const ConvolutionShape& shape) {
  ConvolutionShape s = simplified(shape);
  if (s.kernel_height == 1 && s.kernel_width == 1 && s.padding_height == 0 &&
      s.padding_width == 0 && s.stride_height == 1 && s.in_height == s.out_height &&
      s.in_width == s.out_width) {
    s.batch *= s.in_height * s.in_width;
    s.in_height = s.in_width = s.out_height = s.out_width = 1;
  }
  return s;
}

int64_t unit_bytes(const GradWeightsPlan& plan, int64_t rows) {
  const int64_t outputs = round_up(plan.slice_outputs, kLanes);
  const int64_t window = window_rows(plan, rows) * window_columns(plan, plan.band_columns);
  return plan.unit_pairs * (2 * window * pixel_words(plan, plan.slice_inputs) +
                            4 * rows * plan.band_columns * outputs);
}

void plan_units(GradWeightsPlan& plan) {
  const ConvolutionShape& s = plan.shape;
  plan.bands_x = ceil_div(s.out_width, kUnitPositions);
  plan.band_columns = ceil_div(s.out_width, plan.bands_x);
  plan.unit_pairs = 1;
  int64_t rows = smaller(s.out_height, larger(1, kPreferredPositions / plan.band_columns));
  while (rows > 1 && unit_bytes(plan, rows) > kUnitBytes) --rows;
  plan.bands_y = ceil_div(s.out_height, rows);
  plan.band_rows = ceil_div(s.out_height, plan.bands_y);
  const int64_t positions = plan.band_rows * plan.band_columns;
  if (plan.bands_y == 1 && plan.bands_x == 1) {
    const int64_t fitting = kUnitBytes / unit_bytes(plan, plan.band_rows);
    plan.unit_pairs = larger(1, smaller(fitting, kPreferredPositions / positions));
    plan.unit_pairs = smaller(plan.unit_pairs, ceil_div(s.batch, 2));
  }
  plan.units = ceil_div(ceil_div(s.batch, 2), plan.unit_pairs) * plan.bands_y * plan.bands_x;
}

// Halves the longer side of the slices until they are small and enough.
void plan_slices(GradWeightsPlan& plan, int threads) {
  const ConvolutionShape& s = plan.shape;
  const int64_t taps = s.kernel_height * s.kernel_width;
  while (true) {
    const int64_t weights = taps * plan.slice_inputs * plan.slice_outputs;
    const bool enough = plan.slices() >= 2 * threads || weights <= kSmallestSlice;
    if (weights <= kSliceWeights && enough) return;
    if (plan.slice_outputs > larger(kGroupChannels, plan.slice_inputs)) {
      plan.slice_outputs = round_up(plan.slice_outputs / 2, kGroupChannels);
    } else if (plan.slice_inputs > kTilePixels) {
      plan.slice_inputs = ceil_div(plan.slice_inputs, 2);
    } else if (plan.slice_outputs > kGroupChannels) {
      plan.slice_outputs = round_up(plan.slice_outputs / 2, kGroupChannels);
    } else {
      return;
    }
    plan.input_slices = ceil_div(s.in_channels, plan.slice_inputs);
    plan.output_slices = ceil_div(s.out_channels, plan.slice_outputs);
  }
}

void plan_scratch(GradWeightsPlan& plan, int threads) {
  const ConvolutionShape& s = plan.shape;
  const auto after = [](size_t offset, int64_t bytes) {
    return offset + static_cast<size_t>(round_up(bytes, 64));
  };
  const int64_t outputs = round_up(plan.slice_outputs, kLanes);
  const Unit unit{.pairs = plan.unit_pairs, .rows = plan.band_rows, .columns = plan.band_columns};
  const int64_t window =
      plan.unit_pairs * window_rows(plan, plan.band_rows) * window_columns(plan, plan.band_columns);
  plan.input_offset = after(0, s.kernel_height * s.kernel_width * plan.slice_inputs * outputs * 8);
  plan.grads_offset = after(plan.input_offset, window * pixel_words(plan, plan.slice_inputs) * 2);
  plan.thread_bytes = after(plan.grads_offset,
                            ceil_div(plan.slice_outputs, kGroupChannels) * unit.group_words() * 2);
  plan.used_offset = plan.thread_bytes * static_cast<size_t>(threads);
  plan.total_bytes = after(plan.used_offset, threads);
}

}  // namespace

GradWeightsPlan plan_grad_weights(const ConvolutionShape& shape, int sum_bits, int threads) {
  GradWeightsPlan plan;
  plan.sum_bits = sum_bits;
  plan.shape = folded(shape);
  const ConvolutionShape& s = plan.shape;
  const bool pointwise =
      s.kernel_height == 1 && s.kernel_width == 1 && s.padding_height == 0 && s.padding_width == 0;
  plan.step = pointwise ? 1 : s.stride_height;
  plan.decimation = pointwise ? s.stride_height : 1;
  plan.slice_inputs = s.in_channels;
  plan.slice_outputs = s.out_channels;
  plan_units(plan);
  if (s.weights_count() > kSmallWeights || plan.units < 2 * threads) {
    plan_slices(plan, threads);
    plan_units(plan);
  }
  plan.units_per_task = larger(1, plan.units / (8 * threads));
  plan_scratch(plan, threads);
  return plan;
}

}  // namespace mantissa::kernels::convolution_words
