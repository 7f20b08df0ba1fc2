#include <algorithm>

#include "kernels/convolution/bytes/bytes.h"

namespace mantissa::kernels::convolution_bytes {
namespace {

constexpr int64_t kFinishRows = 32;

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

// Prepares a block's gradients for products.
void prepare_grads(const GradWeightsPlan& plan, const Chunk& chunk, int64_t block) {
  plan.tiles.packing.sum_grads(plan, chunk, block);
  if (plan.tiles.transpose != nullptr) plan.tiles.transpose(plan, chunk, block);
}

// A unit of the chunk `index`: its gradients of the slice and, with the first slice, its input.
void pack_chunk_unit(const GradWeightsPlan& plan, const ConvolutionGradWeights& args,
                     const Chunk& chunk, int64_t index, int64_t unit) {
  const int64_t of_all = index * plan.chunk_units + unit;
  if (chunk.first_channel == 0) {
    plan.tiles.packing.input(plan, args.input, of_all, chunk.input + unit * plan.input_bytes());
  }
  plan.tiles.packing.grads(plan, args.grad_output, of_all, chunk.first_channel,
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
    for (int64_t row = 0; row < plan.run; row += 64)
      plan.tiles.packing.sum_inputs(plan, chunk, row);
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
    plan.tiles.packing.sum_inputs(plan, chunk, (task - blocks) * 64);
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
      plan.tiles.packing.finish_row(plan, sums + plan.shared_sums_at(output, ky), output,
                                    ky * plan.run, plan.run, args);
    }
  });
}

void finish_own(const GradWeightsPlan& plan, const ConvolutionGradWeights& args,
                const KernelContext& context) {
  std::byte* scratch = context.scratch.data();
  GradientSums copies[kMostOwnSums];
  int count = 0;
  for (int copy = 0; copy < context.pool->size(); ++copy) {
    const auto* used = reinterpret_cast<const int64_t*>(scratch + plan.used_offset + 64 * copy);
    if (*used != 0) copies[count++] = {scratch + plan.sums_bytes * copy, plan.sum_bits};
  }
  context.pool->parallel_for(ceil_div(plan.rows, kFinishRows), [&](int64_t task, int) {
    const int64_t row = task * kFinishRows;
    GradientSums parts[kMostOwnSums];
    for (int part = 0; part < count; ++part) parts[part] = copies[part].from(row * plan.columns);
    plan.tiles.packing.finish_sums(plan, {parts, count, plan.columns}, row,
                                   smaller(kFinishRows, plan.rows - row), args);
  });
}

}  // namespace

void grad_weights(const InstructionSet& own, const ConvolutionGradWeights& args,
                  const KernelContext& context) noexcept {
  if (needs_no_sums(args)) return;
  const GradWeightsPlan plan = plan_grad_weights(
      own.grad_weights, args.shape, args.grad_output.bits, args.totals.bits, context.pool->size());
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

size_t grad_weights_scratch_bytes(const InstructionSet& own, const ConvolutionShape& shape,
                                  int bits, int threads) noexcept {
  // One plane can need more than two: its chunks are larger.
  return std::max(
      plan_grad_weights(own.grad_weights, shape, bits, 64, threads).total_bytes,
      plan_grad_weights(own.grad_weights, shape, std::min(bits, 8), 64, threads).total_bytes);
}

}  // namespace mantissa::kernels::convolution_bytes
