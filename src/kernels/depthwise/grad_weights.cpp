// grad_weights: two rows of gradients at a time, in every tap's int32 sum, drained into int64
// before it could overflow.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "kernels/common/exact_sums.h"
#include "kernels/common/parallel_ranges.h"
#include "kernels/depthwise/lines.h"
#include "kernels/depthwise/passes.h"
#include "numerics/rounding.h"

namespace mantissa::kernels::depthwise {
namespace {

// Pairs of products that an int32 sum holds: 2 * 128 * 127 * 66,000 and 2 * 128 * 32,767 * 256 are
// below 2^31.
constexpr int64_t pairs_depth(int bits) { return bits <= 8 ? 66'000 : 256; }

struct Plan {
  ConvolutionShape shape;
  LineLayout grad, input;
  int parts;

  Plan(const RowLoops& loops, const ConvolutionShape& s, int threads) : shape(s) {
    const int64_t padded_channels = round_up(s.in_channels, loops.lanes);
    grad = {.stride = 2,
            .apart = 1,
            .first_column = 0,
            .columns = s.out_width,
            .padded_channels = padded_channels,
            .slots = 1};
    input = {.stride = 1,
             .apart = s.stride_height,
             .first_column = -s.padding_width,
             .columns = (s.out_width - 1) * s.stride_width + s.kernel_width,
             .padded_channels = padded_channels,
             .slots = s.kernel_height};
    parts = static_cast<int>(std::min<int64_t>({threads, kMaximumParts, units()}));
  }

  int64_t units_per_image() const { return divide_up<int64_t>(shape.out_height, 2); }
  int64_t units() const { return shape.batch * units_per_image(); }
  int64_t taps() const { return shape.kernel_height * shape.kernel_width; }
  int64_t sums() const { return taps() * input.padded_channels; }

  size_t totals_bytes() const { return bytes(sizeof(int64_t)); }
  size_t sums_bytes() const { return bytes(sizeof(int32_t)); }
  size_t part_bytes() const {
    return totals_bytes() + sums_bytes() + grad.scratch_bytes() + input.scratch_bytes();
  }

 private:
  size_t bytes(size_t size) const {
    return round_up<size_t>(static_cast<size_t>(sums()) * size, 64);
  }
};

// One thread's share.
class Part {
 public:
  Part(const RowLoops& loops, const Plan& plan, const ConvolutionGradWeights& args,
       std::byte* scratch)
      : loops_(loops),
        plan_(plan),
        depth_(pairs_depth(args.grad_output.bits)),
        totals_(reinterpret_cast<int64_t*>(scratch)),
        sums_(reinterpret_cast<int32_t*>(scratch + plan.totals_bytes())),
        grad_(loops, grad_images(args), plan.grad,
              scratch + plan.totals_bytes() + plan.sums_bytes()),
        input_(loops, input_images(args), plan.input,
               scratch + plan.part_bytes() - plan.input.scratch_bytes()) {
    std::memset(scratch, 0, plan.totals_bytes() + plan.sums_bytes());
  }

  void run(int64_t begin_unit, int64_t end_unit) {
    for (int64_t unit = begin_unit; unit < end_unit; ++unit) add_unit(unit);
    drain();
  }

 private:
  static Images grad_images(const ConvolutionGradWeights& args) {
    const ConvolutionShape& s = args.shape;
    return {args.grad_output.data, args.grad_output.bits, s.out_height, s.out_width,
            s.out_channels};
  }
  static Images input_images(const ConvolutionGradWeights& args) {
    const ConvolutionShape& s = args.shape;
    return {args.input, 8, s.in_height, s.in_width, s.in_channels};
  }

  void add_unit(int64_t unit) {
    const ConvolutionShape& s = plan_.shape;
    const int64_t n = unit / plan_.units_per_image(), line = unit % plan_.units_per_image();
    const Pair* grad = *grad_.window(n, line, 1);
    const Pair* const* inputs =
        input_.window(n, 2 * line * s.stride_height - s.padding_height, s.kernel_height);
    for (int64_t x = 0; x < s.out_width;) {
      if (pending_ == depth_) drain();
      const int64_t pixels = std::min(s.out_width - x, depth_ - pending_);
      loops_.add_products({.grad = grad + x * plan_.grad.padded_channels,
                           .lines = inputs,
                           .rows = s.kernel_height,
                           .columns = s.kernel_width,
                           .padded_channels = plan_.input.padded_channels,
                           .source = x * s.stride_width,
                           .source_step = s.stride_width,
                           .pixels = pixels,
                           .sums = sums_});
      pending_ += pixels;
      x += pixels;
    }
  }

  void drain() {
    loops_.drain(sums_, plan_.sums(), totals_);
    pending_ = 0;
  }

  const RowLoops& loops_;
  const Plan& plan_;
  int64_t depth_, pending_ = 0;
  int64_t* totals_;
  int32_t* sums_;
  LineRing grad_, input_;
};

void finish(const Plan& plan, const ConvolutionGradWeights& args, const std::byte* scratch,
            int64_t parts, int64_t channel) {
  for (int64_t tap = 0; tap < plan.taps(); ++tap) {
    int64_t sum = 0;
    for (int64_t part = 0; part < parts; ++part) {
      const std::byte* totals = scratch + plan.part_bytes() * part;
      sum += reinterpret_cast<const int64_t*>(totals)[tap * plan.input.padded_channels + channel];
    }
    add_sum(sum, args.shift, args.adds, args.totals, channel * plan.taps() + tap);
  }
}

}  // namespace

void grad_weights(const RowLoops& loops, const ConvolutionGradWeights& args,
                  const KernelContext& context) noexcept {
  const Plan plan(loops, args.shape, context.pool->size());
  std::byte* scratch = context.scratch.data();
  const int64_t parts = parallel_ranges(
      *context.pool, plan.units(), 1, [&](int64_t begin, int64_t end, int64_t part) {
        Part(loops, plan, args, scratch + plan.part_bytes() * part).run(begin, end);
      });
  parallel_ranges(*context.pool, args.shape.in_channels, 64,
                  [&](int64_t begin, int64_t end, int64_t) {
                    for (int64_t c = begin; c < end; ++c) finish(plan, args, scratch, parts, c);
                  });
}

size_t grad_weights_scratch_bytes(const RowLoops& loops, const ConvolutionShape& shape, int,
                                  int threads) noexcept {
  const Plan plan(loops, shape, threads);
  return plan.part_bytes() * plan.parts;
}

}  // namespace mantissa::kernels::depthwise
