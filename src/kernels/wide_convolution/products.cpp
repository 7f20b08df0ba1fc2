// Depthwise convolution of mantissas of more than 8 bits: each product as it is, in int64.
#include <algorithm>
#include <array>

#include "base/checked.h"
#include "kernels/common/exact_sums.h"
#include "kernels/common/parallel_ranges.h"
#include "kernels/depthwise/axis.h"
#include "kernels/wide_convolution/rows.h"

namespace mantissa::kernels {
namespace {

using depthwise::Axes;
using depthwise::Axis;
using depthwise::AxisPhase;

constexpr int64_t kMostTaps = 64;

// sums = bias + the sums of ConvolutionForward, for input and weights of 2 to 16 bits; or,
// mirrored, the sums of ConvolutionGradInput, whose source is the gradient of the output.
struct Products {
  ConvolutionShape shape;
  bool mirrored = false;
  ConstMantissaSpan source;       // [N, H, W, C]; mirrored [N, OH, OW, C]
  ConstMantissaSpan weights;      // [C, KH, KW, 1]
  const int64_t* bias = nullptr;  // [C], or null
  int64_t* sums = nullptr;        // [N, OH, OW, C]; mirrored [N, H, W, C]
};

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
  Rows(const KernelTable& table, const Products& args, const int64_t* by_tap, const int64_t* bias)
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
        int64_t count = 0;
        for (int64_t i = 0; i < rows.taps; ++i) {
          if (source + i < 0 || source + i >= vertical.sources) continue;
          for (int64_t j = run.first_tap; j < run.last_tap; ++j) {
            const int64_t x = columns.source + run.begin * horizontal.source_step() + j;
            const int64_t tap =
                (rows.kernel_first + i * rows.kernel_step) * args_.shape.kernel_width +
                columns.kernel_first + j * columns.kernel_step;
            taps[static_cast<size_t>(count++)] = {source_at(image, source + i, x),
                                                  by_tap_ + tap * args_.shape.in_channels};
          }
        }
        const int64_t x = columns.first + run.begin * horizontal.step();
        const int64_t channels = args_.shape.in_channels;
        kernels_.channel_products({.taps = taps.data(),
                                   .tap_count = count,
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
  const Products& args_;
  const int64_t *by_tap_, *bias_;
  Axes axes_;
};

const char* declines(const ConvolutionShape& s, int source_bits, int weight_bits) noexcept {
  if (std::max(source_bits, weight_bits) <= 8) return "takes only more than 8 bits";
  if (s.groups != s.in_channels || s.groups != s.out_channels) {
    return "takes only groups of one channel";
  }
  if (s.dilation > 1) return "takes no dilation";
  return s.kernel_height * s.kernel_width > kMostTaps ? "takes at most 64 taps" : nullptr;
}

void sum_products(const KernelTable& table, const Products& args, const KernelContext& context) {
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

size_t products_scratch_bytes(const ConvolutionShape& s) {
  return aligned_bytes((s.kernel_height * s.kernel_width + 1) * s.in_channels * 8);
}

// Nothing is split into planes.
std::vector<ConvolutionChoice> no_planes(const KernelTable&, const ConvolutionShape&, int) {
  return {};
}

void forward(const KernelTable& table, const WideForward& args, ConvolutionParts,
             const KernelContext& context) noexcept {
  sum_products(table,
               {.shape = args.shape,
                .source = args.input,
                .weights = args.weights,
                .bias = args.bias,
                .sums = args.sums},
               context);
}

size_t forward_scratch_bytes(const ConvolutionShape& shape, int, int, int,
                             ConvolutionParts) noexcept {
  return products_scratch_bytes(shape);
}

// The sums of grad_input; the scratch of sum_products follows.
size_t grad_input_sums_bytes(const ConvolutionShape& s) {
  return aligned_bytes(input_images_per_chunk(s) * (s.input_count() / s.batch) * 8);
}

WideStatistics grad_input(const KernelTable& table, const WideGradInput& args, ConvolutionParts,
                          const KernelContext& context) noexcept {
  ConvolutionShape s = args.shape;
  const int64_t batch = s.batch, images = input_images_per_chunk(s), out = s.output_count() / batch;
  auto* sums = reinterpret_cast<int64_t*>(context.scratch.data());
  const KernelContext inner{context.pool, context.scratch.subspan(grad_input_sums_bytes(s))};
  WideStatistics total;
  for (int64_t first = 0; first < batch; first += images) {
    s.batch = std::min(images, batch - first);
    const int64_t at = first * out * gradient_bytes(args.grad_output.bits);
    sum_products(table,
                 {.shape = s,
                  .mirrored = true,
                  .source = {args.grad_output.as<std::byte>() + at, args.grad_output.bits},
                  .weights = args.weights,
                  .sums = sums},
                 inner);
    total += narrow_images(table, *context.pool, args, sums, first, s.batch);
  }
  return total;
}

size_t grad_input_scratch_bytes(const ConvolutionShape& shape, int, int, int,
                                ConvolutionParts) noexcept {
  return grad_input_sums_bytes(shape) + products_scratch_bytes(shape);
}

}  // namespace

const WideConvolutionRow kWideByProducts = {.name = "products",
                                            .declines = declines,
                                            .forward_planes = no_planes,
                                            .grad_input_planes = no_planes,
                                            .forward = forward,
                                            .forward_scratch_bytes = forward_scratch_bytes,
                                            .grad_input = grad_input,
                                            .grad_input_scratch_bytes = grad_input_scratch_bytes};

}  // namespace mantissa::kernels
