#include <algorithm>

#include "kernels/convolution/bytes/grad_weights.h"

namespace mantissa::kernels::convolution_bytes {
namespace {

constexpr int64_t kUnitBytes = 256 * 1024;
constexpr int64_t kSharedChunkBytes = 1024 * 1024;  // times threads, or as much as the sums
constexpr int64_t kSharedPositions = 1024;          // whose gradients for a task fit the L2 cache
constexpr int64_t kSmallWeights = 64 * 1024;        // threads keep sums of their own up to this
constexpr int64_t kShallowDepth = 256;        // for which adding threads' sums is not worth it
constexpr int64_t kManyChannels = 128;        // which are packed in panels
constexpr int64_t kSliceBytes = 1024 * 1024;  // times threads

int64_t panel_channels(int64_t channels) {
  return channels >= kManyChannels && channels % 16 == 0 ? 16 : channels;
}

void plan_units(GradWeightsPlan& plan) {
  const ConvolutionShape& s = plan.shape;
  plan.bands_x = ceil_div(s.out_width, kGradWeightsDepth / 16);
  plan.band_columns = ceil_div(s.out_width, plan.bands_x);
  plan.window_columns = (plan.band_columns - 1) * plan.step + s.kernel_width;
  const int64_t row_bytes = 4 * (plan.window_columns * plan.step * s.in_channels +
                                 plan.planes * plan.band_columns * s.out_channels);
  int64_t rows = smaller(kUnitBytes / row_bytes, kGradWeightsDepth / (4 * plan.band_columns));
  rows = larger(1, smaller(rows, s.out_height));
  plan.bands_y = ceil_div(s.out_height, rows);
  plan.band_rows = ceil_div(s.out_height, plan.bands_y);
  plan.window_rows = (plan.band_rows - 1) * plan.step + s.kernel_height;
  plan.units = ceil_div(s.batch, 4) * plan.bands_y * plan.bands_x;
  plan.panel_channels = panel_channels(s.out_channels);
  plan.panels = s.out_channels / plan.panel_channels;
}

int64_t transposed_plane_bytes(const GradWeightsPlan& plan, int64_t units) {
  return plan.tiles.transpose == nullptr ? 0 : plan.tiles.transposed_plane_bytes(plan, units);
}

void plan_chunks(GradWeightsPlan& plan, int threads) {
  const int64_t channels = plan.shape.in_channels;
  constexpr int64_t kUnits = 16;  // of one alone, tiles would be filled up
  const int64_t unit_bytes =
      4 * (plan.window_rows * plan.window_columns * channels +
           plan.planes * plan.unit_positions() * plan.shape.out_channels) +
      plan.columns / 16 * plan.planes * transposed_plane_bytes(plan, kUnits) / kUnits;
  const int64_t depth = 4 * plan.unit_positions();
  plan.shared_chunks = plan.rows * plan.columns > kSmallWeights || threads > kMostOwnSums ||
                       plan.units * depth <= kShallowDepth;
  int64_t most = plan.tiles.own_chunk_bytes / unit_bytes;
  if (plan.shared_chunks) {
    // Each chunk but the only one reads and writes all sums, so that it may be as large as they
    // are, and the only one as large as they and the first of two.
    const int64_t sums = plan.rows * plan.columns * int64_t{sizeof(int64_t)} / unit_bytes;
    const int64_t units = plan.units <= 2 * sums ? plan.units : sums;
    most = larger(kSharedChunkBytes * threads / unit_bytes,
                  smaller(units, 4 * kSharedPositions / depth));
  }
  most = larger(1, smaller(most, kGradWeightsDepth / depth));
  int64_t chunks = ceil_div(plan.units, most);
  if (!plan.shared_chunks) chunks = smaller(plan.units, round_up(chunks, threads));
  plan.chunk_units = ceil_div(plan.units, chunks);
  // Tiles of rows take any (kx, c) that are adjacent.
  plan.input_panel_channels = plan.shared_chunks ? panel_channels(channels) : channels;
  plan.input_panels = channels / plan.input_panel_channels;
}

// Whole tasks' channels, of slices as even as that allows.
void plan_slices(GradWeightsPlan& plan, int threads) {
  plan.slice_panels = plan.panels;
  if (!plan.shared_chunks || plan.panels == 1) return;
  const int64_t task_panels = kOutputsPerTask / plan.panel_channels;
  const int64_t task_bytes = plan.planes * (task_panels * plan.panel_stride +
                                            kOutputsPerTask / 16 * plan.transposed_plane_bytes);
  const int64_t tasks = ceil_div(plan.panels, task_panels);
  const int64_t most = larger(1, kSliceBytes * threads / task_bytes);
  plan.slice_panels = smaller(plan.panels, ceil_div(tasks, ceil_div(tasks, most)) * task_panels);
}

void plan_scratch(GradWeightsPlan& plan, int threads) {
  const ConvolutionShape& s = plan.shape;
  const auto aligned = [](int64_t bytes) { return static_cast<size_t>(round_up(bytes, 64)); };
  const int copies = plan.shared_chunks ? 1 : threads;
  if (plan.shared_chunks) {
    const int64_t rows = s.out_channels * s.kernel_height;
    plan.sums_bytes = static_cast<size_t>(rows * plan.run_pitch()) * sizeof(int64_t);
    if (plan.chunks() == 1) plan.sums_bytes = 0;
  } else {
    plan.sums_bytes = static_cast<size_t>(plan.rows * plan.columns) * sizeof(int64_t);
  }
  plan.used_offset = plan.sums_bytes * copies;
  plan.chunks_offset = plan.used_offset + 64 * static_cast<size_t>(copies);
  // An odd number of cache lines, so that panels do not compete for the same places of the cache.
  const auto stride = [](int64_t bytes) { return round_up(bytes, 128) + 64; };
  plan.input_panel_stride = stride(plan.chunk_units * plan.input_bytes());
  plan.panel_stride = stride(plan.chunk_units * plan.unit_positions() * plan.position_bytes());
  plan.transposed_plane_bytes = transposed_plane_bytes(plan, plan.chunk_units);
  plan_slices(plan, threads);
  const int64_t input_end = plan.input_panels * plan.input_panel_stride + kGradWeightsSlack;
  plan.planes_offset = aligned(input_end);
  plan.plane_stride = aligned(plan.slice_panels * plan.panel_stride + kGradWeightsSlack);
  plan.transposed_offset = plan.planes_offset + plan.planes * plan.plane_stride;
  plan.input_sums_offset =
      plan.transposed_offset + static_cast<size_t>(ceil_div(plan.slice_channels(), 16) *
                                                   plan.planes * plan.transposed_plane_bytes);
  plan.grad_sums_offset =
      plan.input_sums_offset +
      static_cast<size_t>(s.kernel_height * round_up(plan.run, 64)) * sizeof(int32_t);
  plan.chunk_bytes = plan.grad_sums_offset + static_cast<size_t>(plan.columns) * sizeof(int64_t);
  if (plan.tiles.transpose != nullptr) {
    // The bytes beyond are multiplied by zeros.
    plan.chunk_bytes =
        std::max(plan.chunk_bytes, aligned(input_end + plan.tiles.bytes_beyond_input(plan)));
  }
  plan.total_bytes = plan.chunks_offset + plan.chunk_bytes * copies;
}

}  // namespace

GradWeightsPlan plan_grad_weights(const GradWeightsTiles& tiles, const ConvolutionShape& shape,
                                  int bits, int sum_bits, int threads) {
  GradWeightsPlan plan{.tiles = tiles, .shape = simplified(shape)};
  plan.planes = bits <= 8 ? 1 : 2;
  plan.sum_bits = sum_bits;
  const ConvolutionShape& s = plan.shape;
  const bool pointwise =
      s.kernel_height == 1 && s.kernel_width == 1 && s.padding_height == 0 && s.padding_width == 0;
  plan.step = pointwise ? 1 : s.stride_height;
  plan.decimation = pointwise ? s.stride_height : 1;
  plan.run = s.kernel_width * s.in_channels;
  plan.rows = s.kernel_height * plan.run;
  plan.columns = round_up(s.out_channels, 16);
  plan_units(plan);
  plan_chunks(plan, threads);
  plan_scratch(plan, threads);
  return plan;
}

Positions positions_of(const GradWeightsPlan& plan, int64_t units) {
  const int64_t pixel = plan.pixel_bytes();
  Positions p = {{units, plan.band_rows, plan.band_columns},
                 {plan.input_bytes(), plan.step * plan.window_columns * pixel, plan.step * pixel}};
  for (int i = 0; i < 2; ++i) {  // join the inner loops if they run through
    if (p.count[2] != 1 && p.step[1] != p.count[2] * p.step[2]) break;
    p = {{1, p.count[0], p.count[1] * p.count[2]},
         {0, p.step[0], p.count[2] == 1 ? p.step[1] : p.step[2]}};
  }
  return p;
}

}  // namespace mantissa::kernels::convolution_bytes
