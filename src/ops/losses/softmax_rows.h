// Losses that a family of kernels computes, softmax with cross-entropy among them.
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/softmax/softmax.h"
#include "ops/kernel_name.h"
#include "ops/losses/loss_rows.h"

namespace mantissa::ops {

// inputs: logits int32 [N, ..., classes], labels int32 [N, ...], perhaps weights int16 [N, ...].
// `row` is one of the rows that they are for. Prepared is the smoothing.
inline kernels::SoftmaxCrossEntropy softmax_arguments(const OpContext& c, int64_t row) {
  return {c.inputs[0].as<int32_t>(),
          c.inputs[1].as<int32_t>(),
          c.inputs[0].row_exponent(row),
          c.inputs[0].shape.last(),
          *static_cast<const int64_t*>(c.kernel.prepared),
          row_weights_at(c, 2)};
}

// The family of kernels that computes a loss.
template <auto kFamily, auto kArguments>
struct ByFamily {
  static auto arguments(const OpContext& c, int64_t row) { return kArguments(c, row); }
  static kernels::LossSums loss(const OpContext& c, int64_t first, int64_t next) {
    return (c.kernel.table->*kFamily)->loss(kArguments(c, first), first, next);
  }
  static kernels::WideStatistics gradient(const OpContext& c, int shift, kernels::MantissaSpan grad,
                                          int64_t first, int64_t next,
                                          kernels::WideCounts* counts) {
    auto args = kArguments(c, first);
    args.counts = counts;
    return (c.kernel.table->*kFamily)->gradient(args, shift, grad, first, next);
  }
  static constexpr auto kKernel = kernel_name<kFamily>;
};

using BySoftmax = ByFamily<&kernels::KernelTable::softmax, softmax_arguments>;

}  // namespace mantissa::ops
