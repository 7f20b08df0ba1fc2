// Forward and grad_input: both sum a window of a source image, the second one mirrored.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked.h"
#include "kernels/common/parallel_ranges.h"
#include "kernels/depthwise/axis.h"
#include "kernels/depthwise/lines.h"
#include "kernels/depthwise/passes.h"
#include "numerics/rounding.h"

namespace mantissa::kernels::depthwise {
namespace {

// Up to this many taps a sum of products of 16 and 8 bits stays below 2^30, so that half a unit of
// the largest shift still fits.
constexpr int64_t kMaximumTaps16 = 256;
constexpr int kMaximumShift = 31;

// Windows of rows begin on even or odd rows of the source; lines hold an even row and the next. So
// each row phase has its weights in both alignments.
struct Plan {
  ConvolutionShape shape;
  Axis vertical, horizontal;
  LineLayout layout;
  int parts;

  Plan(const RowLoops& loops, const ConvolutionShape& s, bool mirrored, int threads);

  int64_t taps() const { return shape.kernel_height * shape.kernel_width; }
  int64_t padded_channels() const { return layout.padded_channels; }
  static int64_t lines(int64_t taps, int64_t odd) { return taps == 0 ? 0 : (taps + odd + 1) / 2; }
  // The packed weights [columns, lines, padded_channels] of a row phase, alignment and column tap.
  int64_t weights_at(int64_t row_phase, int64_t odd, int64_t column) const {
    return ((row_phase * 2 + odd) * shape.kernel_width + column) * layout.slots * padded_channels();
  }

  size_t weights_bytes() const { return bytes(weights_at(vertical.phases(), 0, 0), sizeof(Pair)); }
  size_t bias_bytes() const { return bytes(padded_channels(), sizeof(int32_t)); }
  // Weights by tap, and one more of zeros; only while weights are packed.
  size_t taps_bytes() const { return bytes((taps() + 1) * padded_channels(), 1); }
  size_t scratch_bytes() const {
    return weights_bytes() + bias_bytes() + taps_bytes() + layout.scratch_bytes() * parts;
  }

 private:
  static size_t bytes(int64_t count, size_t size) {
    return round_up<size_t>(static_cast<size_t>(count) * size, 64);
  }
};

Plan::Plan(const RowLoops& loops, const ConvolutionShape& s, bool mirrored, int threads)
    : shape(s) {
  const Axes axes(s, mirrored);
  vertical = axes.vertical;
  horizontal = axes.horizontal;
  layout = {.stride = 2,
            .apart = 1,
            .first_column = horizontal.first_source(),
            .columns = horizontal.span(),
            .padded_channels = round_up(s.in_channels, loops.lanes),
            .slots = lines(vertical.most_taps(), 1)};
  parts = static_cast<int>(std::min<int64_t>({threads, kMaximumParts, s.batch * vertical.results}));
}

// The destination of results, and how they are narrowed.
struct Results {
  std::byte* data;
  int bytes, shift;
  int32_t limit;
  PassCounts counts;
};

class Correlation {
 public:
  Correlation(const RowLoops& loops, const Plan& plan, std::byte* scratch)
      : loops_(loops),
        plan_(plan),
        weights_(reinterpret_cast<Pair*>(scratch)),
        bias_(reinterpret_cast<int32_t*>(scratch + plan.weights_bytes())),
        taps_(reinterpret_cast<int8_t*>(scratch + plan.weights_bytes() + plan.bias_bytes())),
        rings_(scratch + plan.weights_bytes() + plan.bias_bytes() + plan.taps_bytes()) {}

  void pack(const int8_t* weights, const int32_t* bias);
  WideStatistics run(const Images& sources, const Results& results, ThreadPool& pool) const;

 private:
  void transpose(const int8_t* weights);
  void pack_column(const AxisPhase& rows, int64_t odd, int64_t kernel_column, Pair* to) const;
  WideStatistics run_row(LineRing& ring, const Results& results, int64_t index,
                         WideCounts* counts) const;

  const RowLoops& loops_;
  const Plan& plan_;
  Pair* weights_;
  int32_t* bias_;
  int8_t* taps_;
  std::byte* rings_;
};

// [channels, taps] to [taps + 1, padded_channels], the last tap zeros.
void Correlation::transpose(const int8_t* weights) {
  const int64_t taps = plan_.taps(), channels = plan_.shape.in_channels;
  std::memset(taps_, 0, plan_.taps_bytes());
  for (int64_t tap = 0; tap < taps; ++tap) {
    int8_t* to = taps_ + tap * plan_.padded_channels();
    for (int64_t c = 0; c < channels; ++c) to[c] = weights[c * taps + tap];
  }
}

// One column of taps, as the lines of a window meet them.
void Correlation::pack_column(const AxisPhase& rows, int64_t odd, int64_t kernel_column,
                              Pair* to) const {
  const int64_t padded = plan_.padded_channels();
  const auto tap_row = [&](int64_t i) -> PixelRow {
    if (i < 0 || i >= rows.taps) return {taps_ + plan_.taps() * padded, padded};
    const int64_t kernel_row = rows.kernel_first + i * rows.kernel_step;
    return {taps_ + (kernel_row * plan_.shape.kernel_width + kernel_column) * padded, padded};
  };
  for (int64_t line = 0; line < Plan::lines(rows.taps, odd); ++line) {
    loops_.pair({.first = tap_row(2 * line - odd),
                 .second = tap_row(2 * line - odd + 1),
                 .bits = 8,
                 .pixels = 1,
                 .channels = padded,
                 .padded_channels = padded,
                 .pairs = to + line * padded});
  }
}

void Correlation::pack(const int8_t* weights, const int32_t* bias) {
  std::memset(bias_, 0, plan_.bias_bytes());
  if (bias != nullptr) std::copy_n(bias, plan_.shape.in_channels, bias_);
  transpose(weights);
  for (int64_t row_phase = 0; row_phase < plan_.vertical.phases(); ++row_phase) {
    const AxisPhase rows = plan_.vertical.phase(row_phase);
    for (const int64_t odd : {0, 1}) {
      int64_t column = 0;
      for (int64_t phase = 0; phase < plan_.horizontal.phases(); ++phase) {
        const AxisPhase columns = plan_.horizontal.phase(phase);
        Pair* to = weights_ + plan_.weights_at(row_phase, odd, column);
        for (int64_t i = 0; i < columns.taps; ++i) {
          pack_column(rows, odd, columns.kernel_first + i * columns.kernel_step, to);
          to += Plan::lines(rows.taps, odd) * plan_.padded_channels();
        }
        column += columns.taps;
      }
    }
  }
}

// Row index % results of image index / results.
WideStatistics Correlation::run_row(LineRing& ring, const Results& results, int64_t index,
                                    WideCounts* counts) const {
  const Axis &vertical = plan_.vertical, &horizontal = plan_.horizontal;
  const int64_t n = index / vertical.results, y = index % vertical.results;
  const int64_t row_phase = vertical.phase_of(y), channels = plan_.shape.in_channels;
  const AxisPhase rows = vertical.phase(row_phase);
  const int64_t source = rows.source + (y - rows.first) / vertical.step() * vertical.source_step();
  const int64_t odd = source & 1, lines = Plan::lines(rows.taps, odd);
  CorrelationRow row = {.lines = ring.window(n, (source - odd) / 2, lines),
                        .bias = bias_,
                        .rows = lines,
                        .channels = channels,
                        .padded_channels = plan_.padded_channels(),
                        .source_step = horizontal.source_step(),
                        .to_step = horizontal.step() * channels,
                        .to_bytes = results.bytes,
                        .shift = results.shift,
                        .limit = results.limit,
                        .counts = counts};
  WideStatistics statistics;
  int64_t column = 0;
  for (int64_t phase = 0; phase < horizontal.phases(); ++phase) {
    const AxisPhase columns = horizontal.phase(phase);
    row.weights = weights_ + plan_.weights_at(row_phase, odd, column);
    row.columns = columns.taps;
    row.source = columns.source - plan_.layout.first_column;
    row.results = horizontal.phase_results(columns);
    row.to = results.data + (index * horizontal.results + columns.first) * channels * results.bytes;
    if (row.results > 0) statistics += loops_.correlate(row);
    column += columns.taps;
  }
  return statistics;
}

WideStatistics Correlation::run(const Images& sources, const Results& results,
                                ThreadPool& pool) const {
  std::array<WideStatistics, kMaximumParts> partial;
  const int64_t parts = parallel_ranges(
      pool, plan_.shape.batch * plan_.vertical.results, 1,
      [&](int64_t begin, int64_t end, int64_t part) {
        LineRing ring(loops_, sources, plan_.layout, rings_ + plan_.layout.scratch_bytes() * part);
        WideStatistics found;
        for (int64_t row = begin; row < end; ++row) {
          found += run_row(ring, results, row, results.counts.wide_of(part));
        }
        partial[part] = found;
      });
  WideStatistics total;
  for (int64_t part = 0; part < parts; ++part) total += partial[part];
  return total;
}

bool fits_int32(const ConvolutionShape& s, int bits) {
  return bits <= 8 ||
         divide_up(s.kernel_height, s.stride_height) * divide_up(s.kernel_width, s.stride_width) <=
             kMaximumTaps16;
}

}  // namespace

const char* declines(const ConvolutionWork& work) noexcept {
  const ConvolutionShape& s = work.shape;
  if (s.groups == 1 || s.groups != s.in_channels || s.groups != s.out_channels) {
    return "takes only groups of one channel";
  }
  if (s.dilation > 1) return "takes no dilation";
  if (work.bits > 16) return "takes only gradients of up to 16 bits";
  if (work.pass == ConvolutionPass::kGradInput && !fits_int32(s, work.bits)) {
    return "sums of so many taps and 16 bits do not fit int32";
  }
  return nullptr;
}

WideStatistics forward(const RowLoops& loops, const ConvolutionForward& args,
                       const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  const Plan plan(loops, s, false, context.pool->size());
  Correlation correlation(loops, plan, context.scratch.data());
  correlation.pack(args.weights, args.bias);
  const bool writes_sums = args.sums != nullptr;
  const Results results = {.data = writes_sums ? reinterpret_cast<std::byte*>(args.sums)
                                               : reinterpret_cast<std::byte*>(args.output),
                           .bytes = writes_sums ? 4 : 1,
                           .shift = args.shift,
                           .limit = static_cast<int32_t>(mantissa_limit(args.bits)),
                           .counts = args.counts};
  return correlation.run({args.input, 8, s.in_height, s.in_width, s.in_channels}, results,
                         *context.pool);
}

size_t forward_scratch_bytes(const RowLoops& loops, const ConvolutionShape& shape,
                             int threads) noexcept {
  return Plan(loops, shape, false, threads).scratch_bytes();
}

WideStatistics grad_input(const RowLoops& loops, const ConvolutionGradInput& args,
                          const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  const int bits = args.grad_output.bits;
  const Plan plan(loops, s, true, context.pool->size());
  Correlation correlation(loops, plan, context.scratch.data());
  correlation.pack(args.weights, nullptr);
  const bool writes_sums = args.sums != nullptr;
  const int bytes = writes_sums ? 4 : static_cast<int>(gradient_bytes(args.grad_input.bits));
  const Results results = {.data = writes_sums ? reinterpret_cast<std::byte*>(args.sums)
                                               : args.grad_input.as<std::byte>(),
                           .bytes = bytes,
                           .shift = std::min(args.shift, kMaximumShift),
                           .limit = static_cast<int32_t>(mantissa_limit(args.grad_input.bits)),
                           .counts = args.counts};
  return correlation.run({args.grad_output.data, bits, s.out_height, s.out_width, s.out_channels},
                         results, *context.pool);
}

size_t grad_input_scratch_bytes(const RowLoops& loops, const ConvolutionShape& shape, int,
                                int threads) noexcept {
  return Plan(loops, shape, true, threads).scratch_bytes();
}

}  // namespace mantissa::kernels::depthwise
