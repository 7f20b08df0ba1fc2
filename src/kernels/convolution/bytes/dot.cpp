// Forward and grad_input: packs the weights, then runs tiles over bands of images.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <numeric>

#include "kernels/bit_counts/piece_counts.h"
#include "kernels/convolution/bytes/bytes.h"
#include "kernels/convolution/bytes/plan.h"
#include "numerics/rounding.h"

namespace mantissa::kernels::convolution_bytes {
namespace {

// Byte planes of gradients.
int planes_of(int bits) { return bits <= 8 ? 1 : 2; }

DotPlan plan_forward(const Tiles& tiles, const ConvolutionShape& shape, int threads) {
  return plan_dot(forward_dot(shape, threads, tiles.folded_width), 1, threads, tiles.depth_dwords);
}

DotPlan plan_grad_input(const Tiles& tiles, const ConvolutionShape& shape, int bits, int threads) {
  return plan_dot(grad_input_dot(shape, threads, tiles.folded_width), planes_of(bits), threads,
                  tiles.depth_dwords);
}

// Sums of |weights| up to this keep 32767 * sum within int32.
constexpr int32_t kInt32Magnitude = 65535;

// One call of forward or grad_input.
struct DotCall {
  const InstructionSet& own;
  const DotPlan& plan;
  DotMode mode;
  std::byte* scratch;
  const void* source;  // int8 or int16
  char* target;        // int32, int16 or int8
  int target_bytes;    // per element
  int shift = 0;
  int bits = 8;  // of a result, if it is rounded
  PassCounts counts;

  int limit() const { return static_cast<int>(mantissa_limit(bits)); }

  int32_t* init(int64_t phase) const {
    return reinterpret_cast<int32_t*>(scratch + plan.init_offset) + phase * plan.dot.blocks() * 16;
  }
  int32_t* magnitude(int64_t phase) const {
    return reinterpret_cast<int32_t*>(scratch + plan.magnitude_offset) + phase * plan.dot.blocks();
  }
  uint8_t* packed_source(int worker) const {
    return reinterpret_cast<uint8_t*>(scratch + plan.source_offset) +
           worker * plan.planes * plan.plane_bytes;
  }
};

// A phase on both axes, and the start of its packed weights.
struct Phase {
  AxisPhase y, x;
  int64_t index = 0;
  int8_t* weights = nullptr;
};

template <typename Visit>
void for_each_phase(const DotCall& call, Visit&& visit) {
  const Dot& dot = call.plan.dot;
  auto* weights = reinterpret_cast<int8_t*>(call.scratch);
  for (int64_t index = 0; index < dot.phases(); ++index) {
    const Phase phase = {
        dot.axis_phase(index / dot.target_step, dot.vertical(), dot.target_height),
        dot.axis_phase(index % dot.target_step, dot.horizontal(), dot.target_width), index,
        weights};
    visit(phase);
    weights += dot.blocks() * block_bytes(call.plan, phase.y, phase.x);
  }
}

PackedBlock packed_block(const DotCall& call, const Phase& phase, int64_t block) {
  const Dot& dot = call.plan.dot;
  const BlockGroup group = group_of_block(block, dot.blocks());
  return {.weights = phase.weights + group.first * block_bytes(call.plan, phase.y, phase.x) +
                     (block - group.first) * 64,
          .stride = group.size * 64,
          .row_dwords = run_dwords(call.plan, phase.x),
          .init = call.init(phase.index) + block * 16,
          .magnitude = call.magnitude(phase.index) + block};
}

// One band of one image, packed.
struct Band {
  const uint8_t* packed = nullptr;
  char* target = nullptr;  // of the image
  int64_t first_row = 0;   // of each phase
};

// Runs tiles over segments of equal length, as many at a time as they hold.
class SegmentQueue {
 public:
  SegmentQueue(const DotCall& call, int vectors, int64_t pixels, TileArguments& arguments)
      : tiles_(call.own.tiles),
        mode_(call.mode),
        vectors_(vectors),
        most_bases_(tiles_.most_bases(mode_, vectors)),
        arguments_(arguments),
        tile_(tiles_.find(mode_, vectors, most_bases_, pixels)) {
    arguments.pixels = static_cast<int>(pixels);
  }

  void add(const uint8_t* source, char* target) {
    arguments_.source[waiting_] = source;
    arguments_.target[waiting_] = target;
    if (++waiting_ < most_bases_) return;
    tile_(arguments_);
    waiting_ = 0;
  }
  void finish() {
    while (waiting_ > 0) {
      const int bases = waiting_ >= 2 ? 2 : 1;
      tiles_.find(mode_, vectors_, bases, arguments_.pixels)(arguments_);
      waiting_ -= bases;
      for (int i = 0; i < waiting_; ++i) {
        arguments_.source[i] = arguments_.source[i + bases];
        arguments_.target[i] = arguments_.target[i + bases];
      }
    }
  }

 private:
  const Tiles& tiles_;
  DotMode mode_;
  int vectors_, most_bases_;
  TileArguments& arguments_;
  Tile tile_;
  int waiting_ = 0;
};

// Rows [begin, end) of a phase, `columns` wide, for one group of channel blocks.
void run_rows(const DotCall& call, const Phase& phase, const BlockGroup& group, const Band& band,
              int64_t begin, int64_t end, int64_t columns, TileArguments& arguments) {
  const DotPlan& plan = call.plan;
  const Dot& dot = plan.dot;
  const int64_t segments = ceil_div(columns, call.own.tiles.pixels);
  if (segments == 0 || begin >= end) return;
  const int64_t shorter = columns / segments;
  const int64_t longer_count = columns % segments;
  for (int longer = 0; longer < 2; ++longer) {
    const int64_t pixels = shorter + longer;
    const int64_t count = longer != 0 ? longer_count : segments - longer_count;
    if (count == 0) continue;
    const int64_t first = longer != 0 ? 0 : longer_count * (shorter + 1);
    SegmentQueue queue(call, group.size, pixels, arguments);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t y = phase.y.first_target + i * dot.target_step;
      const int64_t window_y =
          (i - band.first_row) * dot.source_step + phase.y.source - plan.window_y.begin;
      for (int64_t segment = 0; segment < count; ++segment) {
        const int64_t column = first + segment * pixels;
        const int64_t x = phase.x.first_target + column * dot.target_step;
        const int64_t window_x = column * dot.source_step + phase.x.source - plan.window_x.begin;
        queue.add(
            band.packed + (window_y * plan.window_columns + window_x) * dot.source_channels,
            band.target + ((y * dot.target_width + x) * dot.target_channels + group.first * 16) *
                              call.target_bytes);
      }
    }
    queue.finish();
  }
}

// grad_input where no tap reaches: zeros.
void clear_rows(const DotCall& call, const Phase& phase, const Band& band, int64_t begin,
                int64_t end) {
  const Dot& dot = call.plan.dot;
  const int64_t bytes = dot.target_channels * call.target_bytes;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t y = phase.y.first_target + i * dot.target_step;
    for (int64_t j = 0; j < phase.x.count; ++j) {
      const int64_t x = phase.x.first_target + j * dot.target_step;
      __builtin_memset(band.target + (y * dot.target_width + x) * bytes, 0,
                       static_cast<size_t>(bytes));
    }
  }
}

void run_phase(const DotCall& call, const Phase& phase, const Band& band,
               TileArguments& arguments) {
  const DotPlan& plan = call.plan;
  const Dot& dot = plan.dot;
  const int64_t begin = smaller(band.first_row, phase.y.count);
  const int64_t end = smaller(band.first_row + plan.band_rows, phase.y.count);
  if (phase.y.taps == 0 || phase.x.taps == 0) return clear_rows(call, phase, band, begin, end);
  const bool has_last = dot.last_width != dot.source_width && end == phase.y.count && begin < end;
  arguments.taps_y = phase.y.taps;
  arguments.dwords = run_dwords(plan, phase.x);
  for (int64_t block = 0; block < dot.blocks();) {
    const BlockGroup group = group_of_block(block, dot.blocks());
    arguments.weights = packed_block(call, phase, group.first).weights;
    arguments.init = call.init(phase.index) + group.first * 16;
    const int64_t lanes = dot.target_channels - (group.first + group.size - 1) * 16;
    arguments.tail_mask = lanes >= 16 ? 0xffff : (1u << lanes) - 1;
    run_rows(call, phase, group, band, begin, has_last ? end - 1 : end, phase.x.count, arguments);
    if (has_last) run_rows(call, phase, group, band, end - 1, end, dot.last_width, arguments);
    block = group.first + group.size;
  }
}

void run_band(const DotCall& call, int64_t image, int64_t band_index, int worker,
              TileArguments& arguments) {
  uint8_t* packed = call.packed_source(worker);
  const DotPlan& plan = call.plan;
  const Dot& dot = plan.dot;
  const int64_t first_row = band_index * plan.band_rows;
  const Window window = {.first_row = first_row * dot.source_step + plan.window_y.begin,
                         .rows = (plan.band_rows - 1) * dot.source_step + plan.window_y.reach,
                         .first_column = plan.window_x.begin,
                         .columns = plan.window_columns};
  const int64_t pixels = dot.source_height * dot.source_width;
  const int64_t offset = image * pixels * dot.source_channels;
  if (plan.planes == 1) {
    call.own.dot.bytes(dot, static_cast<const int8_t*>(call.source) + offset, window, packed);
  } else {
    call.own.dot.planes(dot, static_cast<const int16_t*>(call.source) + offset, window,
                        plan.plane_bytes, packed);
  }
  const Band band = {packed,
                     call.target + image * dot.target_height * dot.target_width *
                                       dot.target_channels * call.target_bytes,
                     first_row};
  for_each_phase(call, [&](const Phase& phase) { run_phase(call, phase, band, arguments); });
  if (call.counts.written == nullptr) return;
  const int64_t first = dot.target_elements(first_row);
  call.counts.written->add({band.target + first * call.target_bytes, call.bits},
                           dot.target_elements(first_row + plan.band_rows) - first, worker);
}

// The largest magnitude whose rounded result is at most `limit`, which is odd: limit + 1/2 rounds
// up.
uint32_t unsaturated_magnitude(int limit, int shift) {
  if (shift == 0) return static_cast<uint32_t>(limit);
  const int64_t largest =
      (int64_t{limit} << smaller(shift, 31)) + (int64_t{1} << smaller(shift - 1, 31)) - 1;
  return static_cast<uint32_t>(smaller(largest, UINT32_MAX));
}

// 0 for shifts that nobody needs to be fast.
uint32_t roundable_end(uint32_t unsaturated, int shift) {
  if (shift > 30) return 0;
  const int64_t half = shift > 0 ? int64_t{1} << (shift - 1) : 0;
  return static_cast<uint32_t>(smaller(int64_t{unsaturated} + 1, (int64_t{1} << 31) - half));
}

// Tiles with sums that count are not roundable: their sums are looked at.
void note_least(TileArguments& t) {
  t.roundable_end = static_cast<uint32_t>(
      std::min<uint64_t>({roundable_end(t.unsaturated, t.shift), t.counts->least}));
}

// Elements of a pixel of a tile.
int64_t tile_channels(const TileArguments& t, int vectors) {
  return 16 * (vectors - 1) + std::popcount(t.tail_mask);
}

// The largest of a tile's maxima: 16 of int32 sums or 8 of int64 ones.
uint64_t tile_maximum(DotMode mode, const TileArguments& t) {
  if (mode == DotMode::kPlanesInt64) return *std::max_element(t.maximum, t.maximum + 8);
  uint32_t lanes[16];
  std::memcpy(lanes, t.maximum, sizeof lanes);
  return *std::max_element(lanes, lanes + 16);
}

int64_t tile_saturated(DotMode mode, const TileArguments& t) {
  if (mode == DotMode::kPlanesInt64)
    return std::accumulate(t.saturated, t.saturated + 8, int64_t{0});
  uint32_t lanes[16];
  std::memcpy(lanes, t.saturated, sizeof lanes);
  return std::accumulate(lanes, lanes + 16, int64_t{0});
}

void raise(std::atomic<uint64_t>& maximum, uint64_t value) {
  uint64_t seen = maximum.load(std::memory_order_relaxed);
  while (seen < value && !maximum.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

WideStatistics run_dot(const DotCall& call, ThreadPool& pool) {
  const DotPlan& plan = call.plan;
  const Dot& dot = plan.dot;
  std::atomic<uint64_t> maximum{0};
  std::atomic<int64_t> saturated{0};
  pool.parallel_for(plan.tasks(), [&](int64_t task, int worker) {
    TileArguments arguments;
    arguments.source_step = dot.source_step * dot.source_channels;
    arguments.target_step = dot.target_step * dot.target_channels * call.target_bytes;
    arguments.row_pitch = plan.window_columns * dot.source_channels;
    arguments.plane_bytes = plan.plane_bytes;
    arguments.shift = call.shift;
    arguments.limit = call.limit();
    arguments.unsaturated = unsaturated_magnitude(call.limit(), call.shift);
    arguments.roundable_end = roundable_end(arguments.unsaturated, call.shift);
    arguments.counts = call.counts.wide_of(worker);
    if (arguments.counts != nullptr) note_least(arguments);
    if (plan.bands > 1) {
      run_band(call, task / plan.bands, task % plan.bands, worker, arguments);
    } else {
      const int64_t first = task * plan.images_per_task;
      const int64_t last = smaller(dot.batch, first + plan.images_per_task);
      for (int64_t image = first; image < last; ++image) {
        run_band(call, image, 0, worker, arguments);
      }
    }
    call.own.tiles.release();
    raise(maximum, tile_maximum(call.mode, arguments));
    saturated.fetch_add(tile_saturated(call.mode, arguments), std::memory_order_relaxed);
  });
  return {maximum.load(), saturated.load()};
}

DotMode grad_input_mode(const DotCall& call) {
  if (call.target_bytes == 4) return DotMode::kSums;
  if (call.plan.planes == 1) return call.target_bytes == 1 ? DotMode::kByte : DotMode::kWord;
  for (int64_t phase = 0; phase < call.plan.dot.phases(); ++phase) {
    for (int64_t block = 0; block < call.plan.dot.blocks(); ++block) {
      if (call.magnitude(phase)[block] > kInt32Magnitude) return DotMode::kPlanesInt64;
    }
  }
  return DotMode::kPlanesInt32;
}

}  // namespace

void count_sums(TileArguments& t, const int32_t* sums, int64_t pixels, int vectors) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    t.counts->add(sums + pixel * vectors * 16, tile_channels(t, vectors));
  }
  note_least(t);
}

void count_sums(TileArguments& t, const int32_t* high, const int32_t* low, int64_t pixels,
                int vectors) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (int64_t c = 0; c < tile_channels(t, vectors); ++c) {
      const int64_t at = pixel * vectors * 16 + c;
      t.counts->add(magnitude(high[at] * int64_t{256} + low[at]));
    }
  }
}

WideStatistics forward(const InstructionSet& own, const ConvolutionForward& args,
                       const KernelContext& context) noexcept {
  const ConvolutionShape shape = simplified(args.shape);
  const DotPlan plan = plan_forward(own.tiles, shape, context.pool->size());
  const bool rounds = args.sums == nullptr;
  const DotCall call = {
      .own = own,
      .plan = plan,
      .mode = rounds ? DotMode::kByte : DotMode::kSums,
      .scratch = context.scratch.data(),
      .source = args.input,
      .target = rounds ? reinterpret_cast<char*>(args.output) : reinterpret_cast<char*>(args.sums),
      .target_bytes = rounds ? 1 : 4,
      .shift = args.shift,
      .bits = args.bits,
      .counts = args.counts};
  context.pool->parallel_for(plan.dot.blocks(), [&](int64_t block, int) {
    for_each_phase(call, [&](const Phase& phase) {
      own.dot.forward_weights(shape, args.weights, args.bias, block * 16,
                              packed_block(call, phase, block));
    });
  });
  return run_dot(call, *context.pool);
}

WideStatistics grad_input(const InstructionSet& own, const ConvolutionGradInput& args,
                          const KernelContext& context) noexcept {
  const ConvolutionShape shape = simplified(args.shape);
  const DotPlan plan =
      plan_grad_input(own.tiles, shape, args.grad_output.bits, context.pool->size());
  DotCall call = {.own = own,
                  .plan = plan,
                  .mode = DotMode::kPlanesInt32,
                  .scratch = context.scratch.data(),
                  .source = args.grad_output.data,
                  .target = args.sums == nullptr ? args.grad_input.as<char>()
                                                 : reinterpret_cast<char*>(args.sums),
                  .target_bytes = args.sums == nullptr
                                      ? static_cast<int>(gradient_bytes(args.grad_input.bits))
                                      : 4,
                  .shift = args.shift,
                  .bits = args.sums == nullptr ? args.grad_input.bits : 8,
                  .counts = args.counts};
  context.pool->parallel_for(plan.dot.blocks(), [&](int64_t block, int) {
    for_each_phase(call, [&](const Phase& phase) {
      own.dot.grad_input_weights(shape, args.weights, phase.y, phase.x, block * 16,
                                 packed_block(call, phase, block));
    });
  });
  call.mode = grad_input_mode(call);
  return run_dot(call, *context.pool);
}

size_t forward_scratch_bytes(const InstructionSet& own, const ConvolutionShape& shape,
                             int threads) noexcept {
  return plan_forward(own.tiles, shape, threads).total_bytes;
}

size_t grad_input_scratch_bytes(const InstructionSet& own, const ConvolutionShape& shape, int bits,
                                int threads) noexcept {
  return std::max(plan_grad_input(own.tiles, shape, bits, threads).total_bytes,
                  plan_grad_input(own.tiles, shape, 8, threads).total_bytes);
}

}  // namespace mantissa::kernels::convolution_bytes
