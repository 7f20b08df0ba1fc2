// The backward pass of group norm.
#include "kernels/kernel_table.h"
#include "ops/norms/channel_gradient.h"
#include "ops/norms/group_norm_parts.h"
#include "ops/wide_sums.h"

namespace mantissa::ops {
namespace {

kernels::BatchNormGradient gradient_arguments(const OpContext& c) {
  return {.grad_out = gradient_of(c.grad_output()),
          .in = value_of(c.inputs[0]),
          .output = c.mode.relu ? value_of(c.output()) : kernels::MantissaSpan{},
          .channels = c.inputs[0].shape.last()};
}

// The sums of each channel of each example, once.
void find_sums(const OpContext& c, const GroupSizes& sizes, const GroupNormSaved& saved) {
  if (*saved.has_sums != 0) return;
  const kernels::BatchNormGradient args = gradient_arguments(c);
  for_examples(c, sizes, [&](int64_t n) {
    int64_t* const grad = saved.sum_grad + n * sizes.channels;
    int64_t* const grad_in = saved.sum_grad_in + n * sizes.channels;
    std::fill_n(grad, sizes.channels, 0);
    std::fill_n(grad_in, sizes.channels, 0);
    c.kernel.table->batch_norm->gradient_sums(args, n * sizes.rows, (n + 1) * sizes.rows, grad,
                                              grad_in);
  });
  *saved.has_sums = 1;
}

// The sum of dy (q - mean) of channel i of all.
Real centred_sum(const GroupSizes& sizes, const GroupNormSaved& saved, int64_t i) {
  return Real(saved.sum_grad_in[i]) -
         Real(saved.mean[sizes.group_of(i)]) * Real(saved.sum_grad[i]);
}

// The parts of the gradient that all channels of a group share.
void find_group_gradients(const OpContext& c, const GroupSizes& sizes, const GroupNormSaved& saved,
                          Real* of_groups) {
  const Tensor& scale = c.parameters[0].mantissa;
  kernels::parallel_ranges(
      *c.kernel.pool, sizes.all_groups(), kChannelGrain,
      [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t group = begin; group < end; ++group) {
          Real grad, centred;
          const int64_t first = group * sizes.per_group();
          for (int64_t i = first; i < first + sizes.per_group(); ++i) {
            const Real gamma = real(scale, i % sizes.channels);
            grad = grad + gamma * Real(saved.sum_grad[i]);
            centred = centred + gamma * centred_sum(sizes, saved, i);
          }
          const Real inverse(saved.inverse_sigma[group]);
          const GradientAffine shared =
              norm_gradient(ldexp(inverse, -*c.inputs[0].exponent), Real(saved.mean[group]),
                            inverse, grad, centred, Real(sizes.count));
          of_groups[2 * group] = shared.in;
          of_groups[2 * group + 1] = shared.offset;
        }
      });
}

}  // namespace

// Of the scale the sum of dy x^, of the offset the sum of dy: by example, in order.
void group_norm_backward_weights(const OpContext& c) {
  const GroupSizes sizes = group_sizes_of(c);
  const GroupNormSaved saved(c.memory.saved, sizes);
  find_sums(c, sizes, saved);
  const int exponent = *c.grad_output().exponent;
  const Tensor &scale = c.parameters[0].gradient, &offset = c.parameters[1].gradient;
  for_channels(c, sizes.channels, [&](int64_t begin, int64_t end) {
    for (int64_t channel = begin; channel < end; ++channel) {
      Real of_scale;
      __int128 of_offset = 0;
      for (int64_t i = channel; i < sizes.all_channels(); i += sizes.channels) {
        const Real inverse(saved.inverse_sigma[sizes.group_of(i)]);
        of_scale = of_scale + centred_sum(sizes, saved, i) * inverse;
        of_offset += saved.sum_grad[i];
      }
      if (!scale.empty()) accumulate_real(scale, channel, of_scale, exponent);
      if (offset.empty()) continue;
      int64_t& total = offset.as<int64_t>()[channel];
      total = accumulate(total, rescaled(of_offset, *offset.exponent - exponent));
    }
  });
}

void group_norm_backward_input(const OpContext& c) {
  const GroupSizes sizes = group_sizes_of(c);
  const GroupNormWorkspace work(c.memory.workspace, sizes);
  const GroupNormSaved saved(c.memory.saved, sizes);
  find_sums(c, sizes, saved);
  find_group_gradients(c, sizes, saved, work.of_groups);
  const auto affine = [&](int64_t i) -> GradientAffine {
    const int64_t group = sizes.group_of(i);
    const Real scale = real(c.parameters[0].mantissa, i % sizes.channels);
    return {ldexp(scale * Real(saved.inverse_sigma[group]), -*c.inputs[0].exponent),
            work.of_groups[2 * group], work.of_groups[2 * group + 1]};
  };
  const GradientUnits units = write_gradient_integers(
      c, is_bytes(c.inputs[0]) ? 7 : 15, sizes.all_channels(), affine, work.reals,
      {work.multiplier, work.in_multiplier, work.offset});
  kernels::BatchNormGradient args = gradient_arguments(c);
  args.in_shift = units.in_shift;
  args.grad_in = gradient_of(c.grad_inputs[0]);
  const auto of_example = [&](int64_t example) {
    kernels::BatchNormGradient of = args;
    of.grad_multiplier = work.multiplier + example * sizes.channels;
    of.in_multiplier = work.in_multiplier + example * sizes.channels;
    of.offset = work.offset + example * sizes.channels;
    return of;
  };
  const auto wide_of = [&](int64_t i) {
    const kernels::BatchNormGradient of = of_example(i / (sizes.rows * sizes.channels));
    return WideGradient(c, c.inputs[0], of)(i);
  };
  narrow_gradient(c, c.grad_inputs[0], *c.grad_output().exponent - units.wide,
                  [&](int shift, const kernels::PassCounts& counts) {
                    args.shift = shift;
                    const auto piece = [&](int64_t begin, int64_t end, uint64_t seen,
                                           int64_t example) {
                      kernels::BatchNormGradient of = of_example(example);
                      of.seen = seen;
                      return c.kernel.table->batch_norm->gradient(of, begin, end);
                    };
                    return write_examples(c, sizes, c.grad_inputs[0], counts, piece, wide_of);
                  });
}

}  // namespace mantissa::ops
