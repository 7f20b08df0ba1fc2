// Forward and grad_input: packs the weights, then runs register tiles over bands of images.
#include <atomic>
#include <cstring>

#include "kernels/bit_counts/piece_counts.h"
#include "kernels/convolution/words/blocks.h"
#include "kernels/convolution/words/plan.h"
#include "kernels/convolution/words/words.h"
#include "numerics/rounding.h"

namespace mantissa::kernels::convolution_words {
namespace {

// One call of forward or grad_input.
struct DotCall {
  const InstructionSet& own;
  const DotPlan& plan;
  std::byte* scratch;
  const void* source;
  int64_t source_bits;
  char* target;
  Store store;
  const int32_t* bias = nullptr;  // padded, or null
  int bits = 8;                   // of a result that is rounded
  PassCounts counts;

  int32_t* magnitude(int64_t phase) const {
    return reinterpret_cast<int32_t*>(scratch + plan.magnitude_offset) + phase * plan.dot.blocks();
  }
  int16_t* packed_source(int worker) const {
    return reinterpret_cast<int16_t*>(scratch + plan.source_offset + worker * plan.source_bytes);
  }
  // Whether int32 holds sums of products by weights of this magnitude, and their rounding.
  bool fits_int32(int64_t largest) const {
    if (store.type == TargetType::kInt32) return true;
    if (store.shift > 30) return false;
    const int64_t half = store.shift > 0 ? int64_t{1} << (store.shift - 1) : 0;
    return largest * mantissa_limit(source_bits <= 8 ? 8 : 16) + half <= INT32_MAX;
  }
};

// A phase on both axes, and the start of its packed weights.
struct Phase {
  AxisPhase y, x;
  int64_t index = 0;
  std::byte* weights = nullptr;
};

template <typename Visit>
void for_each_phase(const DotCall& call, Visit&& visit) {
  const Dot& dot = call.plan.dot;
  std::byte* weights = call.scratch;
  for (int64_t index = 0; index < dot.phases(); ++index) {
    const Phase phase = {
        dot.axis_phase(index / dot.target_step, dot.vertical(), dot.target_height),
        dot.axis_phase(index % dot.target_step, dot.horizontal(), dot.target_width), index,
        weights};
    visit(phase);
    weights += dot_vectors(dot) * vector_bytes(dot, phase.y, phase.x);
  }
}

int16_t* packed_group(const DotCall& call, const Phase& phase, int64_t group) {
  return reinterpret_cast<int16_t*>(phase.weights +
                                    group * 2 * vector_bytes(call.plan.dot, phase.y, phase.x));
}

// Groups of target channels [first, last).
struct Groups {
  int64_t first = 0, last = 0;
};

// One band of one image, packed.
struct Band {
  const int16_t* packed = nullptr;
  char* target = nullptr;  // of the image
  int64_t first_row = 0;   // of each phase
};

// Rows [begin, end) of a phase, `columns` wide, for one group of target channels.
void run_rows(const DotCall& call, const Phase& phase, int64_t group, const Depth& depth,
              const Band& band, int64_t begin, int64_t end, int64_t columns, Workplace& place) {
  if (begin >= end || columns == 0) return;
  const DotPlan& plan = call.plan;
  const Dot& dot = plan.dot;
  const int64_t pixel_bytes = dot.target_channels * target_bytes(place.store.type);
  const int64_t y = phase.y.first_target + begin * dot.target_step;
  const int64_t window_y =
      (begin - band.first_row) * dot.source_step + phase.y.source - plan.window_y.begin;
  const int64_t window_x = phase.x.source - plan.window_x.begin;
  const auto* source = reinterpret_cast<const char*>(
      band.packed + (window_y * plan.window_columns + window_x) * dot.source_channels);
  const PixelBlock block{.vectors = depth.vector_count,
                         .channels = group_channels(dot, group),
                         .rows = end - begin,
                         .columns = columns,
                         .target = band.target +
                                   (y * dot.target_width + phase.x.first_target) * pixel_bytes +
                                   group * kGroupChannels * target_bytes(place.store.type),
                         .row_step = dot.target_step * dot.target_width * pixel_bytes,
                         .column_step = dot.target_step * pixel_bytes};
  run_blocks(depth, source, block, place);
}

void run_phase(const DotCall& call, const Phase& phase, const Groups& groups, const Band& band,
               Workplace& place) {
  const DotPlan& plan = call.plan;
  const Dot& dot = plan.dot;
  const int64_t begin = smaller(band.first_row, phase.y.count);
  const int64_t end = smaller(band.first_row + plan.band_rows, phase.y.count);
  if (phase.y.taps == 0 || phase.x.taps == 0 || begin == end) return;
  const bool has_last = dot.last_width != dot.source_width && end == phase.y.count;
  const int64_t whole_end = has_last ? end - 1 : end;
  const int64_t row_pitch = plan.window_columns * dot.source_channels * 2;
  for (int64_t group = groups.first; group < groups.last; ++group) {
    const Depth depth = {
        .own = &call.own,
        .taps_y = phase.y.taps,
        .dwords = run_dwords(dot, phase.x),
        .row_pitch = row_pitch,
        .pixel_step = dot.source_step * dot.source_channels * 2,
        .pixel_row_step = dot.source_step * row_pitch,
        .vectors = reinterpret_cast<const char*>(packed_group(call, phase, group)),
        .vector_count = vectors_for(group_channels(dot, group)),
        .bias = call.bias == nullptr ? nullptr : call.bias + group * kGroupChannels,
        .int32_sums = call.fits_int32(call.magnitude(phase.index)[group])};
    run_rows(call, phase, group, depth, band, begin, whole_end, phase.x.count, place);
    run_rows(call, phase, group, depth, band, whole_end, end, dot.last_width, place);
  }
}

// Zeros for a band's targets: they stay where no tap of grad_input reaches.
void clear_band(const DotCall& call, const Band& band, int64_t bytes) {
  const Dot& dot = call.plan.dot;
  const int64_t first = smaller(band.first_row * dot.target_step, dot.target_height);
  const int64_t last =
      smaller((band.first_row + call.plan.band_rows) * dot.target_step, dot.target_height);
  const int64_t row_bytes = dot.target_width * dot.target_channels * bytes;
  std::memset(band.target + first * row_bytes, 0, static_cast<size_t>((last - first) * row_bytes));
}

void run_band(const DotCall& call, int64_t index, const Groups& groups, int worker,
              Workplace& place) {
  int16_t* packed = call.packed_source(worker);
  const DotPlan& plan = call.plan;
  const Dot& dot = plan.dot;
  const int64_t image = index / plan.bands;
  const int64_t first_row = index % plan.bands * plan.band_rows;
  const Window window = {.first_row = first_row * dot.source_step + plan.window_y.begin,
                         .rows = (plan.band_rows - 1) * dot.source_step + plan.window_y.reach,
                         .first_column = plan.window_x.begin,
                         .columns = plan.window_columns};
  const int64_t offset = image * dot.source_height * dot.source_width * dot.source_channels;
  if (call.source_bits <= 8) {
    call.own.dot.window_of_int8(dot, static_cast<const int8_t*>(call.source) + offset, window,
                                packed);
  } else {
    call.own.dot.window_of_int16(dot, static_cast<const int16_t*>(call.source) + offset, window,
                                 packed);
  }
  const int64_t target = image * dot.target_height * dot.target_width * dot.target_channels;
  const Band band = {packed, call.target + target * target_bytes(place.store.type), first_row};
  if (dot.has_gaps()) clear_band(call, band, target_bytes(place.store.type));
  for_each_phase(call, [&](const Phase& phase) { run_phase(call, phase, groups, band, place); });
  if (call.counts.written == nullptr || plan.slices > 1) return;
  const int64_t first = dot.target_elements(first_row);
  call.counts.written->add({band.target + first * target_bytes(place.store.type), call.bits},
                           dot.target_elements(first_row + plan.band_rows) - first, worker);
}

// Statistics of tasks that run at the same time.
class SharedStatistics {
 public:
  void add(const WideStatistics& part) {
    uint64_t seen = maximum_.load(std::memory_order_relaxed);
    while (seen < part.maximum &&
           !maximum_.compare_exchange_weak(seen, part.maximum, std::memory_order_relaxed)) {
    }
    saturated_.fetch_add(part.saturated, std::memory_order_relaxed);
  }
  WideStatistics total() const { return {maximum_.load(), saturated_.load()}; }

 private:
  std::atomic<uint64_t> maximum_{0};
  std::atomic<int64_t> saturated_{0};
};

// pack(group) packs the weights of one group.
template <typename Pack>
WideStatistics run_dot(const DotCall& call, ThreadPool& pool, Pack&& pack) {
  const DotPlan& plan = call.plan;
  const int64_t groups = plan.dot.blocks();
  SharedStatistics statistics;
  const auto run = [&](int64_t first, int64_t last, const Groups& some, int worker) {
    Workplace place(call.store);
    place.store.counts = call.counts.wide_of(worker);
    for (int64_t band = first; band < last; ++band) {
      run_band(call, band, some, worker, place);
    }
    statistics.add(place.store.statistics());
  };
  if (plan.slices > 1) {
    pool.parallel_for(plan.slices, [&](int64_t slice, int worker) {
      const Groups some = {slice * groups / plan.slices, (slice + 1) * groups / plan.slices};
      for (int64_t group = some.first; group < some.last; ++group) pack(group);
      run(0, plan.all_bands(), some, worker);
    });
    return statistics.total();
  }
  pool.parallel_for(groups, [&](int64_t group, int) { pack(group); });
  pool.parallel_for(ceil_div(plan.all_bands(), plan.bands_per_task), [&](int64_t task, int worker) {
    const int64_t first = task * plan.bands_per_task;
    run(first, smaller(plan.all_bands(), first + plan.bands_per_task), {0, groups}, worker);
  });
  return statistics.total();
}

// The bias of all channels, zeros after them.
const int32_t* pad_bias(const DotCall& call, const int32_t* bias) {
  if (bias == nullptr) return nullptr;
  const Dot& dot = call.plan.dot;
  auto* padded = reinterpret_cast<int32_t*>(call.scratch + call.plan.bias_offset);
  std::memset(padded, 0, static_cast<size_t>(dot.blocks() * kGroupChannels) * sizeof(int32_t));
  std::memcpy(padded, bias, static_cast<size_t>(dot.target_channels) * sizeof(int32_t));
  return padded;
}

}  // namespace

WideStatistics forward(const InstructionSet& own, const ConvolutionForward& args,
                       const KernelContext& context) noexcept {
  const ConvolutionShape shape = simplified(args.shape);
  const DotPlan plan = plan_forward(shape, context.pool->size());
  const bool rounds = args.sums == nullptr;
  DotCall call = {
      .own = own,
      .plan = plan,
      .scratch = context.scratch.data(),
      .source = args.input,
      .source_bits = 8,
      .target = rounds ? reinterpret_cast<char*>(args.output) : reinterpret_cast<char*>(args.sums),
      .store = rounds ? Store(TargetType::kInt8, args.shift, mantissa_limit(args.bits))
                      : Store(TargetType::kInt32, 0, 0),
      .bits = args.bits,
      .counts = args.counts};
  call.bias = pad_bias(call, args.bias);
  return run_dot(call, *context.pool, [&](int64_t group) {
    for_each_phase(call, [&](const Phase& phase) {
      call.magnitude(phase.index)[group] = 0;  // sums fit by contract
      own.dot.forward_weights(shape, args.weights, group * kGroupChannels,
                              packed_group(call, phase, group));
    });
  });
}

WideStatistics grad_input(const InstructionSet& own, const ConvolutionGradInput& args,
                          const KernelContext& context) noexcept {
  const ConvolutionShape shape = simplified(args.shape);
  const DotPlan plan = plan_grad_input(shape, context.pool->size());
  const int bits = args.grad_input.bits;
  const bool rounds = args.sums == nullptr;
  const DotCall call = {.own = own,
                        .plan = plan,
                        .scratch = context.scratch.data(),
                        .source = args.grad_output.data,
                        .source_bits = args.grad_output.bits,
                        .target = rounds ? static_cast<char*>(args.grad_input.data)
                                         : reinterpret_cast<char*>(args.sums),
                        .store = rounds ? Store(bits <= 8 ? TargetType::kInt8 : TargetType::kInt16,
                                                args.shift, mantissa_limit(bits))
                                        : Store(TargetType::kInt32, 0, 0),
                        .bits = bits,
                        .counts = args.counts};
  return run_dot(call, *context.pool, [&](int64_t group) {
    for_each_phase(call, [&](const Phase& phase) {
      call.magnitude(phase.index)[group] =
          own.dot.grad_input_weights(shape, args.weights, phase.y, phase.x, group * kGroupChannels,
                                     packed_group(call, phase, group));
    });
  });
}

size_t forward_scratch_bytes(const InstructionSet&, const ConvolutionShape& shape,
                             int threads) noexcept {
  return plan_forward(shape, threads).total_bytes;
}

size_t grad_input_scratch_bytes(const InstructionSet&, const ConvolutionShape& shape, int,
                                int threads) noexcept {
  return plan_grad_input(shape, threads).total_bytes;
}

}  // namespace mantissa::kernels::convolution_words
