#include <cstring>

#include "kernels/convolution/words/words.h"

namespace mantissa::kernels::convolution_words {
namespace {

constexpr int kMaximumParts = 256;

Unit unit_at(const GradWeightsPlan& plan, int64_t index) {
  const ConvolutionShape& s = plan.shape;
  Unit unit;
  unit.pair = index / (plan.bands_y * plan.bands_x) * plan.unit_pairs;
  unit.pairs = smaller(plan.unit_pairs, ceil_div(s.batch, 2) - unit.pair);
  unit.y = index / plan.bands_x % plan.bands_y * plan.band_rows;
  unit.rows = smaller(plan.band_rows, s.out_height - unit.y);
  unit.x = index % plan.bands_x * plan.band_columns;
  unit.columns = smaller(plan.band_columns, s.out_width - unit.x);
  return unit;
}

Slice slice_at(const GradWeightsPlan& plan, int64_t index) {
  const ConvolutionShape& s = plan.shape;
  Slice slice;
  slice.first_input = index / plan.output_slices * plan.slice_inputs;
  slice.inputs = smaller(plan.slice_inputs, s.in_channels - slice.first_input);
  slice.first_output = index % plan.output_slices * plan.slice_outputs;
  slice.outputs = smaller(plan.slice_outputs, s.out_channels - slice.first_output);
  return slice;
}

// One thread's scratch.
struct Workplace {
  const InstructionSet& own;
  GradientSums sums;
  int16_t* input;
  int16_t* grads;

  Workplace(const InstructionSet& set, const GradWeightsPlan& plan, std::byte* scratch, int worker)
      : own(set) {
    std::byte* base = scratch + plan.thread_bytes * static_cast<size_t>(worker);
    sums = {base, plan.sum_bits};
    input = reinterpret_cast<int16_t*>(base + plan.input_offset);
    grads = reinterpret_cast<int16_t*>(base + plan.grads_offset);
  }
};

// The positions of a unit as three nested loops over its packed input: loops of one round are moved
// outwards, and loops with even steps are joined, so that the innermost loop is long.
void set_positions(const GradWeightsPlan& plan, const Unit& unit, int64_t channels,
                   TileArguments& tile) {
  const int64_t pixel = pixel_words(plan, channels) * 2;
  const int64_t row = window_columns(plan, unit.columns) * pixel;
  const int64_t count[3] = {unit.pairs, unit.rows, unit.columns};
  const int64_t step[3] = {window_rows(plan, unit.rows) * row, plan.step * row, plan.step * pixel};
  int slot = 2;
  for (int i = 0; i < 3; ++i) tile.count[i] = 1;
  for (int i = 2; i >= 0; --i) {
    if (count[i] == 1) continue;
    if (slot < 2 && step[i] == tile.count[slot + 1] * tile.step[slot + 1]) {
      tile.count[slot + 1] *= count[i];
      continue;
    }
    tile.count[slot] = count[i];
    tile.step[slot] = step[i];
    --slot;
  }
}

// Adds a tile's sums, which are cleared, to those so far, or begins with them.
void add_tile(const Stores& stores, int32_t* tile, int64_t count, bool first,
              const GradientSums& sums, int64_t at) {
  if (sums.bits == 64) return stores.add_to_int64(tile, count, first, sums.as<int64_t>() + at);
  stores.add_to_int32(tile, count, first, sums.as<int32_t>() + at);
}

// Adds the products of one packed unit to the sums, which begin with the first unit's.
void sum_unit(const GradWeightsPlan& plan, const Unit& unit, const Slice& slice, bool first,
              const Workplace& place) {
  const int64_t kernel_height = plan.shape.kernel_height;
  const int64_t run = plan.shape.kernel_width * slice.inputs;
  const int64_t row_words = window_columns(plan, unit.columns) * pixel_words(plan, slice.inputs);
  alignas(32) int32_t sums[kTilePixels * kGroupChannels] = {};
  TileArguments tile;
  tile.pixel_step = 4;
  tile.sums = sums;
  set_positions(plan, unit, slice.inputs, tile);
  for (int64_t group = 0; group < slice.groups(); ++group) {
    const int vectors = slice.group_vectors(group);
    const int64_t lanes = vectors * kLanes;
    tile.vectors = reinterpret_cast<const char*>(place.grads + group * unit.group_words());
    int64_t at = slice.sums_at(kernel_height * plan.shape.kernel_width, group);
    for (int64_t ky = 0; ky < kernel_height; ++ky) {
      const int16_t* source = place.input + ky * row_words;
      for (int64_t left = run, tiles = ceil_div(run, kTilePixels); tiles > 0; --tiles) {
        const int64_t count = ceil_div(left, tiles);
        tile.source = reinterpret_cast<const char*>(source);
        place.own.tiles.of[vectors - 1][count - 1](tile);
        add_tile(place.own.stores, sums, count * lanes, first, place.sums, at);
        source += count * 2;
        at += count * lanes;
        left -= count;
      }
    }
  }
}

void run_units(const GradWeightsPlan& plan, const ConvolutionGradWeights& args, const Slice& slice,
               int64_t first, int64_t last, bool begins, const Workplace& place) {
  for (int64_t index = first; index < last; ++index) {
    const Unit unit = unit_at(plan, index);
    const GradWeightsPacking& packing = place.own.grad_weights;
    packing.input(plan, args.input, unit, slice, place.input);
    if (args.grad_output.bits <= 8) {
      packing.int8_grads(plan, args.grad_output.as<int8_t>(), unit, slice, place.grads);
    } else {
      packing.int16_grads(plan, args.grad_output.as<int16_t>(), unit, slice, place.grads);
    }
    sum_unit(plan, unit, slice, begins && index == first, place);
  }
}

// Each task has one slice of the weights for itself.
void run_slices(const InstructionSet& own, const GradWeightsPlan& plan,
                const ConvolutionGradWeights& args, const KernelContext& context) {
  const int64_t taps = plan.shape.kernel_height * plan.shape.kernel_width;
  context.pool->parallel_for(plan.slices(), [&](int64_t index, int worker) {
    const Workplace place(own, plan, context.scratch.data(), worker);
    const Slice slice = slice_at(plan, index);
    run_units(plan, args, slice, 0, plan.units, true, place);
    const void* parts[] = {place.sums.data};
    for (int64_t group = 0; group < slice.groups(); ++group) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        own.grad_weights.finish(plan, slice, group, tap, parts, 1, args);
      }
    }
  });
}

// Each task has some units; a thread's tasks add to its own sums.
void run_batch(const InstructionSet& own, const GradWeightsPlan& plan,
               const ConvolutionGradWeights& args, const KernelContext& context) {
  std::byte* scratch = context.scratch.data();
  const Slice all = slice_at(plan, 0);
  auto* used = reinterpret_cast<int8_t*>(scratch + plan.used_offset);
  const int threads = context.pool->size();
  std::memset(used, 0, static_cast<size_t>(threads));
  const int64_t tasks = ceil_div(plan.units, plan.units_per_task);
  context.pool->parallel_for(tasks, [&](int64_t task, int worker) {
    const Workplace place(own, plan, scratch, worker);
    const int64_t first = task * plan.units_per_task;
    const int64_t last = smaller(plan.units, first + plan.units_per_task);
    run_units(plan, args, all, first, last, used[worker] == 0, place);
    used[worker] = 1;
  });
  const void* parts[kMaximumParts];
  int count = 0;
  for (int worker = 0; worker < threads; ++worker) {
    if (used[worker] != 0) parts[count++] = Workplace(own, plan, scratch, worker).sums.data;
  }
  const int64_t taps = plan.shape.kernel_height * plan.shape.kernel_width;
  context.pool->parallel_for(all.groups() * taps, [&](int64_t task, int) {
    own.grad_weights.finish(plan, all, task / taps, task % taps, parts, count, args);
  });
}

}  // namespace

void grad_weights(const InstructionSet& own, const ConvolutionGradWeights& args,
                  const KernelContext& context) noexcept {
  if (needs_no_sums(args)) return;
  const GradWeightsPlan plan =
      plan_grad_weights(args.shape, args.totals.bits, context.pool->size());
  if (plan.combines() && context.pool->size() <= kMaximumParts) {
    run_batch(own, plan, args, context);
  } else {
    run_slices(own, plan, args, context);
  }
}

size_t grad_weights_scratch_bytes(const InstructionSet&, const ConvolutionShape& shape, int,
                                  int threads) noexcept {
  return plan_grad_weights(shape, 64, threads).total_bytes;
}

}  // namespace mantissa::kernels::convolution_words
