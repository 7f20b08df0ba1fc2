#if defined(__x86_64__)
#include "kernels/convolution/avx512vnni_grad_weights.h"

#include <algorithm>

#include "kernels/convolution/avx512vnni_kernels.h"

namespace mantissa::kernels::convolution_avx512vnni {
namespace {

constexpr int64_t kUnitBytes = 256 * 1024;
constexpr int64_t kSharedChunkBytes = 1024 * 1024;  // times threads, or as much as the sums
constexpr int64_t kSharedPositions = 1024;          // whose gradients for a task fit the L2 cache
constexpr int64_t kSmallWeights = 64 * 1024;        // threads keep sums of their own up to this
constexpr int64_t kShallowDepth = 256;        // for which adding threads' sums is not worth it
constexpr int64_t kManyChannels = 128;        // which are packed in panels
constexpr int64_t kSliceBytes = 1024 * 1024;  // times threads
constexpr int64_t kFinishRows = 32;
constexpr int kMaximumParts = 256;

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
  plan.shared_chunks = plan.rows * plan.columns > kSmallWeights || threads > kMaximumParts ||
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
    // What is there is multiplied by zeros.
    plan.chunk_bytes =
        std::max(plan.chunk_bytes, aligned(input_end + plan.tiles.bytes_beyond_input(plan)));
  }
  plan.total_bytes = plan.chunks_offset + plan.chunk_bytes * copies;
}

Chunk chunk_at(const GradWeightsPlan& plan, std::byte* scratch, int64_t index, int copy) {
  std::byte* base = scratch + plan.chunks_offset + plan.chunk_bytes * copy;
  return {.input = reinterpret_cast<uint8_t*>(base),
          .planes = reinterpret_cast<int8_t*>(base + plan.planes_offset),
          .transposed = reinterpret_cast<int8_t*>(base + plan.transposed_offset),
          .first_channel = 0,
          .input_sums = reinterpret_cast<int32_t*>(base + plan.input_sums_offset),
          .grad_sums = {base + plan.grad_sums_offset, plan.sum_bits},
          .units = smaller(plan.chunk_units, plan.units - index * plan.chunk_units)};
}

// Tile `tile` of `tiles` over the rows or vectors of a run: sizes differ by at most one.
struct Share {
  int64_t first = 0, count = 0;
};
Share share_of(int64_t run, int64_t tiles, int64_t tile) {
  const int64_t shorter = run / tiles;
  const int64_t longer = run % tiles;
  return {tile * shorter + smaller(tile, longer), shorter + (tile < longer ? 1 : 0)};
}

// Rows of a run in tiles of whole units.
int64_t row_units(const GradWeightsPlan& plan) { return ceil_div(plan.run, plan.tiles.row_unit); }
int64_t row_tiles(const GradWeightsPlan& plan) {
  const int vectors = plan.planes * static_cast<int>(plan.blocks_at_once());
  return ceil_div(row_units(plan), plan.tiles.most_rows(vectors) / plan.tiles.row_unit);
}
Share rows_of_tile(const GradWeightsPlan& plan, int64_t tiles, int64_t tile) {
  const Share units = share_of(row_units(plan), tiles, tile);
  const int64_t first = units.first * plan.tiles.row_unit;
  return {first, smaller(units.count * plan.tiles.row_unit, plan.run - first)};
}

// What products need of a block's gradients.
void prepare_grads(const GradWeightsPlan& plan, const Chunk& chunk, int64_t block) {
  sum_grads(plan, chunk, block);
  if (plan.tiles.transpose != nullptr) plan.tiles.transpose(plan, chunk, block);
}

// A unit of the chunk `index`: its gradients of the slice and, with the first slice, its input.
void pack_chunk_unit(const GradWeightsPlan& plan, const ConvolutionGradWeights& args,
                     const Chunk& chunk, int64_t index, int64_t unit) {
  const int64_t of_all = index * plan.chunk_units + unit;
  if (chunk.first_channel == 0) {
    pack_unit_input(plan, args.input, of_all, chunk.input + unit * plan.input_bytes());
  }
  pack_unit_grads(plan, args.grad_output, of_all, chunk.first_channel,
                  chunk.planes + unit * plan.unit_positions() * plan.position_bytes());
}

// Each task packs its own chunk and adds to its worker's sums.
void run_own_chunks(const GradWeightsPlan& plan, const ConvolutionGradWeights& args,
                    const KernelContext& context) {
  std::byte* scratch = context.scratch.data();
  const int64_t kernel_height = plan.shape.kernel_height;
  for (int copy = 0; copy < context.pool->size(); ++copy) {
    *reinterpret_cast<int64_t*>(scratch + plan.used_offset + 64 * copy) = 0;
  }
  context.pool->parallel_for(plan.chunks(), [&](int64_t index, int worker) {
    const Chunk chunk = chunk_at(plan, scratch, index, worker);
    auto* used = reinterpret_cast<int64_t*>(scratch + plan.used_offset + 64 * worker);
    const GradientSums sums{scratch + plan.sums_bytes * worker, plan.sum_bits};
    for (int64_t unit = 0; unit < chunk.units; ++unit) {
      pack_chunk_unit(plan, args, chunk, index, unit);
    }
    for (int64_t block = 0; block < plan.columns / 16; ++block) prepare_grads(plan, chunk, block);
    for (int64_t row = 0; row < plan.run; row += 64) sum_inputs(plan, chunk, row);
    const int64_t tiles = row_tiles(plan);
    for (int64_t ky = 0; ky < kernel_height; ++ky) {
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const Share rows = rows_of_tile(plan, tiles, tile);
        for (int64_t block = 0; block < plan.columns / 16; block += plan.blocks_at_once()) {
          plan.tiles.sum_products(
              plan, chunk, ky, rows.first, rows.count, block, *used == 0,
              sums.from((ky * plan.run + rows.first) * plan.columns + block * 16), plan.columns);
        }
      }
    }
    plan.tiles.release();
    *used = 1;
  });
}

// All threads pack a slice of a chunk together, then share its tiles.
void run_shared_slice(const GradWeightsPlan& plan, const ConvolutionGradWeights& args,
                      const KernelContext& context, int64_t index, const Chunk& chunk) {
  auto* sums = reinterpret_cast<int64_t*>(context.scratch.data());
  const int64_t begin = chunk.first_channel;
  const int64_t end = smaller(begin + plan.slice_channels(), plan.shape.out_channels);
  const int64_t kernel_height = plan.shape.kernel_height;
  context.pool->parallel_for(
      chunk.units, [&](int64_t unit, int) { pack_chunk_unit(plan, args, chunk, index, unit); });
  const int64_t blocks = ceil_div(end, 16) - begin / 16;
  const int64_t runs = begin == 0 ? ceil_div(plan.run, 64) : 0;
  context.pool->parallel_for(blocks + runs, [&](int64_t task, int) {
    if (task < blocks) return prepare_grads(plan, chunk, begin / 16 + task);
    sum_inputs(plan, chunk, (task - blocks) * 64);
  });
  const int64_t vectors = plan.run_pitch() / 16;
  const int64_t tiles = ceil_div(vectors, plan.tiles.input_vectors);
  const int64_t output_tasks = ceil_div(end - begin, kOutputsPerTask);
  // Tasks of the same channels follow each other: their gradients stay in the cache.
  context.pool->parallel_for(output_tasks * kernel_height * tiles, [&](int64_t task, int) {
    const int64_t ky = task / tiles % kernel_height;
    const int64_t first = begin + task / (kernel_height * tiles) * kOutputsPerTask;
    const Share tile = share_of(vectors, tiles, task % tiles);
    plan.tiles.sum_shared(plan, args, chunk, ky, tile.first, tile.count, first,
                          smaller(end, first + kOutputsPerTask), index == 0, sums);
    plan.tiles.release();
  });
}

void run_shared_chunk(const GradWeightsPlan& plan, const ConvolutionGradWeights& args,
                      const KernelContext& context, int64_t index) {
  Chunk chunk = chunk_at(plan, context.scratch.data(), index, 0);
  for (int64_t slice = 0; slice < plan.slices(); ++slice) {
    chunk.first_channel = slice * plan.slice_channels();
    run_shared_slice(plan, args, context, index, chunk);
  }
}

void finish_shared(const GradWeightsPlan& plan, const ConvolutionGradWeights& args,
                   const KernelContext& context) {
  const auto* sums = reinterpret_cast<const int64_t*>(context.scratch.data());
  context.pool->parallel_for(plan.shape.out_channels, [&](int64_t output, int) {
    for (int64_t ky = 0; ky < plan.shape.kernel_height; ++ky) {
      finish_row(plan, sums + plan.shared_sums_at(output, ky), output, ky * plan.run, plan.run,
                 args);
    }
  });
}

void finish_own(const GradWeightsPlan& plan, const ConvolutionGradWeights& args,
                const KernelContext& context) {
  std::byte* scratch = context.scratch.data();
  GradientSums copies[kMaximumParts];
  int count = 0;
  for (int copy = 0; copy < context.pool->size(); ++copy) {
    const auto* used = reinterpret_cast<const int64_t*>(scratch + plan.used_offset + 64 * copy);
    if (*used != 0) copies[count++] = {scratch + plan.sums_bytes * copy, plan.sum_bits};
  }
  context.pool->parallel_for(ceil_div(plan.rows, kFinishRows), [&](int64_t task, int) {
    const int64_t row = task * kFinishRows;
    GradientSums parts[kMaximumParts];
    for (int part = 0; part < count; ++part) parts[part] = copies[part].from(row * plan.columns);
    finish_sums(plan, {parts, count, plan.columns}, row, smaller(kFinishRows, plan.rows - row),
                args);
  });
}

}  // namespace

GradWeightsPlan plan_grad_weights(const GradWeightsTiles& tiles, const ConvolutionShape& shape,
                                  int bits, int sum_bits, int threads) {
  GradWeightsPlan plan{.tiles = tiles, .shape = simplified(shape)};
  plan.planes = bits <= 8 ? 1 : 2;
  plan.sum_bits = sum_bits;
  const ConvolutionShape& s = plan.shape;
  const bool pointwise = s.kernel_height == 1 && s.kernel_width == 1 && s.padding == 0;
  plan.step = pointwise ? 1 : s.stride;
  plan.decimation = pointwise ? s.stride : 1;
  plan.run = s.kernel_width * s.in_channels;
  plan.rows = s.kernel_height * plan.run;
  plan.columns = round_up(s.out_channels, 16);
  plan_units(plan);
  plan_chunks(plan, threads);
  plan_scratch(plan, threads);
  return plan;
}

void grad_weights(const AllTiles& tiles, const ConvolutionGradWeights& args,
                  const KernelContext& context) noexcept {
  if (needs_no_sums(args)) return;
  const GradWeightsPlan plan =
      plan_grad_weights(tiles.grad_weights, args.shape, args.grad_output.bits, args.totals.bits,
                        context.pool->size());
  if (plan.shared_chunks) {
    for (int64_t index = 0; index < plan.chunks(); ++index) {
      run_shared_chunk(plan, args, context, index);
    }
    if (plan.keeps_sums()) finish_shared(plan, args, context);
  } else {
    run_own_chunks(plan, args, context);
    finish_own(plan, args, context);
  }
}

size_t grad_weights_scratch_bytes(const AllTiles& tiles, const ConvolutionShape& shape, int bits,
                                  int threads) noexcept {
  // One plane can need more than two: its chunks are larger.
  return std::max(
      plan_grad_weights(tiles.grad_weights, shape, bits, 64, threads).total_bytes,
      plan_grad_weights(tiles.grad_weights, shape, std::min(bits, 8), 64, threads).total_bytes);
}

}  // namespace mantissa::kernels::convolution_avx512vnni
#endif
