#include "ops/convolutions/sum_exponents.h"

#include <algorithm>

#include "base/checked.h"
#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"

namespace mantissa::ops {
namespace {

// One number per channel, aligned.
int64_t shifts_bytes(int64_t channels) {
  return round_up<int64_t>(channels * int64_t{sizeof(int32_t)}, 64);
}

int64_t grain_rows(int64_t channels) {
  return std::max<int64_t>(1, kernels::kElementsPerThread / channels);
}

}  // namespace

int least_channel_exponent(const Tensor& weights, int32_t* above) {
  const int smallest = *std::min_element(weights.exponent, weights.exponent + weights.blocks);
  const int least = std::max(smallest, weights.largest_exponent() - kMostChannelSpread);
  for (int64_t o = 0; o < weights.shape[0]; ++o) above[o] = weights.block_exponent(o) - least;
  return least;
}

int align_sums(const OpContext& c, const SumExponents& exponents, int32_t* sums) {
  const int64_t channels = c.output().shape.last(), rows = c.output().count() / channels;
  const int largest = exponents.largest();
  if (!exponents.by_channel()) return largest;
  kernels::parallel_ranges(
      *c.kernel.pool, rows, grain_rows(channels), [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t row = begin; row < end; ++row) {
          for (int64_t o = 0; o < channels; ++o) {
            int32_t& sum = sums[row * channels + o];
            sum = static_cast<int32_t>(rescale_rne(sum, largest - exponents.of(o)));
          }
        }
      });
  return largest;
}

int64_t align_gradient_bytes(int64_t rows, int64_t channels, int bits) {
  return shifts_bytes(channels) + rows * channels * kernels::gradient_bytes(bits);
}

kernels::ConstMantissaSpan align_gradient(const OpContext& c, const Tensor& weights) {
  const int largest = weights.largest_exponent();
  const int64_t channels = c.grad_output().shape.last(), rows = c.grad_output().count() / channels;
  auto* shifts = reinterpret_cast<int32_t*>(c.memory.workspace);
  bool aligned = true;
  for (int64_t o = 0; o < channels && weights.blocks > 1; ++o) {
    shifts[o] = std::min(largest - weights.block_exponent(o), kMostGradientShift);
    aligned &= shifts[o] == 0;
  }
  if (aligned) return gradient_of(c.grad_output());
  const kernels::ShiftChannels args = {
      gradient_of(c.grad_output()),
      shifts,
      channels,
      {c.memory.workspace + shifts_bytes(channels), c.grad_output().bits}};
  kernels::parallel_ranges(*c.kernel.pool, rows, grain_rows(channels),
                           [&](int64_t begin, int64_t end, int64_t) {
                             c.kernel.table->elementwise->shift_channels(args, begin, end);
                           });
  return args.out;
}

}  // namespace mantissa::ops
