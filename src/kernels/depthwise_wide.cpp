#include "kernels/depthwise_wide.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "kernels/depthwise/axis.h"
#include "kernels/exact_sums.h"
#include "kernels/parallel_ranges.h"

namespace mantissa::kernels {
namespace {

using depthwise::Axes;
using depthwise::Axis;
using depthwise::AxisPhase;

constexpr int64_t kMostTaps = 64;
// Results [begin, end) of a phase of a row, whose taps [first_tap, last_tap) lie inside the image.
struct Run {
  int64_t begin, end, first_tap, last_tap;
};

// Calls visit(run) for each run of a phase's results that meet the same taps.
template <typename Visit>
void for_each_run(const Axis& axis, const AxisPhase& phase, const Visit& visit) {
  const int64_t results = axis.phase_results(phase), step = axis.source_step();
  // Result k meets tap i at the source pixel phase.source + k * step + i.
  const auto first_tap = [&](int64_t k) {
    return std::clamp<int64_t>(-(phase.source + k * step), 0, phase.taps);
  };
  const auto last_tap = [&](int64_t k) {
    return std::clamp(axis.sources - (phase.source + k * step), first_tap(k), phase.taps);
  };
  for (int64_t k = 0; k < results;) {
    Run run{k, k, first_tap(k), last_tap(k)};
    while (k < results && first_tap(k) == run.first_tap && last_tap(k) == run.last_tap) ++k;
    run.end = k;
    visit(run);
  }
}

class Rows {
 public:
  Rows(const KernelTable& table, const DepthwiseWide& args, const int64_t* by_tap,
       const int64_t* bias)
      : kernels_(*table.wide),
        args_(args),
        by_tap_(by_tap),
        bias_(bias),
        axes_(args.shape, args.mirrored) {}

  int64_t count() const { return args_.shape.batch * axes_.vertical.results; }
  int64_t row_sums() const { return axes_.horizontal.results * args_.shape.in_channels; }

  void run(int64_t index) const {
    const Axis &vertical = axes_.vertical, &horizontal = axes_.horizontal;
    const int64_t image = index / vertical.results, y = index % vertical.results;
    const AxisPhase rows = vertical.phase(vertical.phase_of(y));
    const int64_t source =
        rows.source + (y - rows.first) / vertical.step() * vertical.source_step();
    for (int64_t h = 0; h < horizontal.phases(); ++h) {
      const AxisPhase columns = horizontal.phase(h);
      for_each_run(horizontal, columns, [&](const Run& run) {
        std::array<ChannelProducts::Tap, kMostTaps> taps;
        size_t count = 0;
        for (int64_t i = 0; i < rows.taps; ++i) {
          if (source + i < 0 || source + i >= vertical.sources) continue;
          for (int64_t j = run.first_tap; j < run.last_tap; ++j) {
            const int64_t x = columns.source + run.begin * horizontal.source_step() + j;
            const int64_t tap =
                (rows.kernel_first + i * rows.kernel_step) * args_.shape.kernel_width +
                columns.kernel_first + j * columns.kernel_step;
            taps[count++] = {source_at(image, source + i, x),
                             by_tap_ + tap * args_.shape.in_channels};
          }
        }
        const int64_t x = columns.first + run.begin * horizontal.step();
        const int64_t channels = args_.shape.in_channels;
        kernels_.channel_products({.taps = {taps.data(), count},
                                   .first = bias_,
                                   .channels = channels,
                                   .pixels = run.end - run.begin,
                                   .in_step = horizontal.source_step() * channels,
                                   .sum_step = horizontal.step() * channels,
                                   .sums = args_.sums + index * row_sums() + x * channels});
      });
    }
  }

 private:
  ConstMantissaSpan source_at(int64_t image, int64_t y, int64_t x) const {
    const int64_t pixel = (image * axes_.vertical.sources + y) * axes_.horizontal.sources + x;
    const int64_t bytes = gradient_bytes(args_.source.bits) * args_.shape.in_channels;
    return {args_.source.as<std::byte>() + pixel * bytes, args_.source.bits};
  }

  const WideKernels& kernels_;
  const DepthwiseWide& args_;
  const int64_t *by_tap_, *bias_;
  Axes axes_;
};

}  // namespace

bool is_depthwise_wide(const ConvolutionShape& s, int source_bits, int weight_bits) {
  return std::max(source_bits, weight_bits) > 8 && s.groups == s.in_channels &&
         s.groups == s.out_channels && s.dilation == 1 &&
         s.kernel_height * s.kernel_width <= kMostTaps;
}

void depthwise_wide(const KernelTable& table, const DepthwiseWide& args,
                    const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  const int64_t channels = s.in_channels, taps = s.kernel_height * s.kernel_width;
  auto* const by_tap = reinterpret_cast<int64_t*>(context.scratch.data());
  int64_t* const bias = by_tap + taps * channels;
  with_value_type(args.weights.bits, [&](auto type) {
    const auto* weights = args.weights.as<decltype(type)>();
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t tap = 0; tap < taps; ++tap) by_tap[tap * channels + c] = weights[c * taps + tap];
      bias[c] = args.bias == nullptr ? 0 : args.bias[c];
    }
  });
  const Rows rows(table, args, by_tap, bias);
  parallel_ranges(*context.pool, rows.count(),
                  std::max<int64_t>(1, kElementsPerThread / rows.row_sums()),
                  [&](int64_t begin, int64_t end, int64_t) {
                    for (int64_t row = begin; row < end; ++row) rows.run(row);
                  });
}

size_t depthwise_wide_scratch_bytes(const ConvolutionShape& s) {
  return aligned_bytes((s.kernel_height * s.kernel_width + 1) * s.in_channels * 8);
}

}  // namespace mantissa::kernels
