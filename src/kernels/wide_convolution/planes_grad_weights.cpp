// grad_weights by planes of the input.
#include <algorithm>

#include "kernels/common/parallel_ranges.h"
#include "kernels/wide_convolution/planes.h"

namespace mantissa::kernels {
namespace {

using namespace planes;

// Parts of the scratch of wide_grad_weights; the scratch of the kernel follows.
struct GradWeightsScratch {
  size_t sums, gradients, input;

  GradWeightsScratch(const ConvolutionShape& s, int input_bits, int threads)
      : sums(aligned_bytes(s.weights_count() * 8)),
        gradients(aligned_bytes(std::min<int64_t>(threads, kMaximumParts) * s.out_channels * 8)),
        input(plane_bytes(input_bits, plane_shape(s, input_bits).input_count())) {}
  size_t bytes() const { return 2 * sums + gradients + input; }
};

// sums = the 128s that the planes of the input lack: kOffset times each channel's gradients.
void start_weight_sums(const KernelTable& table, ThreadPool& pool, const WideGradWeights& args,
                       int64_t* gradients, int64_t* sums) {
  const ConvolutionShape& s = args.shape;
  const int64_t channels = s.out_channels, depth = s.weights_count() / channels;
  if (planes_of(args.input.bits) == 1) {
    std::fill_n(sums, s.weights_count(), 0);
    return;
  }
  const int64_t parts = parallel_ranges(
      pool, s.output_count() / channels, std::max<int64_t>(1, kElementsPerThread / channels),
      [&](int64_t begin, int64_t end, int64_t part) {
        std::fill_n(gradients + part * channels, channels, 0);
        table.elementwise->sum_rows(args.grad_output, channels, begin, end,
                                    gradients + part * channels);
      });
  for (int64_t i = channels; i < parts * channels; ++i) gradients[i % channels] += gradients[i];
  for (int64_t o = 0; o < channels; ++o) {
    std::fill_n(sums + o * depth, depth, kOffset * gradients[o]);
  }
}

}  // namespace

ConvolutionChoice choose_wide_grad_weights(const KernelTable& table, const ConvolutionShape& shape,
                                           int input_bits, int gradient_bits) {
  return choose_convolution(table.convolution, {ConvolutionPass::kGradWeights,
                                                plane_shape(shape, input_bits), gradient_bits});
}

void wide_grad_weights(const ConvolutionChoice& planes, const KernelTable& table,
                       const WideGradWeights& args, const KernelContext& context) noexcept {
  const ConvolutionShape& s = args.shape;
  ThreadPool& pool = *context.pool;
  const GradWeightsScratch parts(s, args.input.bits, pool.size());
  std::byte* const scratch = context.scratch.data();
  auto* sums = reinterpret_cast<int64_t*>(scratch);
  auto* part = reinterpret_cast<int64_t*>(scratch + parts.sums);
  auto* gradients = reinterpret_cast<int64_t*>(scratch + 2 * parts.sums);
  auto* input = reinterpret_cast<int8_t*>(gradients) + parts.gradients;
  const KernelContext inner{&pool, context.scratch.subspan(parts.bytes())};
  start_weight_sums(table, pool, args, gradients, sums);
  for (int i = 0; i < planes_of(args.input.bits); ++i) {
    const int8_t* from = input_plane(table, pool, s, args.input, i, input);
    planes.grad_weights({.shape = planes.work.shape,
                         .input = from,
                         .grad_output = args.grad_output,
                         .shift = 0,
                         .totals = {part},
                         .adds = false},
                        inner);
    add_shifted(table, pool, {part}, 8 * i, s.weights_count(), sums);
  }
  add_sums(pool, sums, args.shift, s.weights_count(), args.adds, {args.accumulator});
}

size_t wide_grad_weights_scratch_bytes(const KernelTable& table, const ConvolutionShape& shape,
                                       int input_bits, int gradient_bits, int threads) {
  return GradWeightsScratch(shape, input_bits, threads).bytes() +
         convolution_scratch_bytes(
             table.convolution,
             {ConvolutionPass::kGradWeights, plane_shape(shape, input_bits), gradient_bits},
             threads);
}

}  // namespace mantissa::kernels
