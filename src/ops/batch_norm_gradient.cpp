// The backward pass of batch norm. Source: METHODS sections 0.3, 0.8 and 4 (fused backward with
// kept convolution output).
#include "kernels/kernel_table.h"
#include "ops/batch_norm_parts.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kGradientOffsetLimit = int64_t{1} << 59;

bool is_wide_gradient(const OpContext& c) {
  return !is_bytes(c.inputs[0]) || (c.relu && !is_bytes(c.output));
}

// The gradient that a ReLU behind the batch norm lets through, of any width.
class MaskedGradient {
 public:
  explicit MaskedGradient(const OpContext& c)
      : grads_(c.grad_output), output_(c.output), masked_(c.relu) {}
  int64_t operator[](int64_t i) const { return !masked_ || output_[i] > 0 ? grads_[i] : 0; }

 private:
  Mantissas grads_, output_;
  bool masked_;
};

// What the kernel for 8 bits does, for any width: adds rows [begin, end) to the sums.
void add_wide_gradients(const OpContext& c, int64_t channels, int64_t begin, int64_t end,
                        int64_t* sum_grad, int64_t* sum_grad_in) {
  const MaskedGradient grads(c);
  const Mantissas in(c.inputs[0]);
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t i = 0; i < channels; ++i) {
      const int64_t grad = grads[row * channels + i];
      sum_grad[i] += grad;
      sum_grad_in[i] += grad * in[row * channels + i];
    }
  }
}

kernels::BatchNormGradient gradient_arguments(const OpContext& c, int64_t channels) {
  return {.grad_out = gradient_of(c.grad_output),
          .in = c.inputs[0].as<int8_t>(),
          .output = c.relu ? c.output.as<int8_t>() : nullptr,
          .channels = channels};
}

// Adds a real number in units of 2^exponent to a gradient accumulator.
void accumulate_real(const Tensor& gradient, int64_t i, const Real& value, int exponent) {
  int64_t& total = gradient.as<int64_t>()[i];
  total = accumulate(total, to_fixed_point(value, exponent - *gradient.exponent, kWideLimit));
}

// dx = (gamma / sigma) (dy - S1/n - x^ * dgamma/n) = A dy + D q + C per channel.
struct GradientAffine {
  Real grad, in, offset;
};

GradientAffine gradient_affine(const OpContext& c, const BatchNormSaved& saved, int64_t i,
                               const Real& rows) {
  const Real mean(saved.mean[i]), inverse_sigma(saved.inverse_sigma[i]);
  const Real sum_grad(saved.sum_grad[i]);
  const Real centred = Real(saved.sum_grad_in[i]) - mean * sum_grad;
  const Real grad =
      ldexp(real(c.parameters[0].mantissa, i) * inverse_sigma, -channel_exponent(c.inputs[0], i));
  const Real in = -grad * inverse_sigma * (centred * inverse_sigma) / rows;
  const Real offset = -grad * sum_grad / rows - in * mean;
  return {grad, in, offset};
}

}  // namespace

void batch_norm_backward_weights(const OpContext& c) {
  const int64_t channels = c.grad_output.shape.last(), rows = c.grad_output.count() / channels;
  const BatchNormSaved saved(c.saved, channels);
  const BatchNormWorkspace work(c.workspace, channels);
  const auto args = gradient_arguments(c, channels);
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, rows, batch_norm_grain(channels),
      [&](int64_t begin, int64_t end, int64_t part) {
        int64_t* sums = work.partial + part * 2 * channels;
        std::fill_n(sums, 2 * channels, 0);
        if (is_wide_gradient(c)) {
          return add_wide_gradients(c, channels, begin, end, sums, sums + channels);
        }
        c.kernels->batch_norm->gradient_sums(args, begin, end, sums, sums + channels);
      });
  const int exponent = *c.grad_output.exponent;
  const Tensor &scale = c.parameters[0].gradient, &offset = c.parameters[1].gradient;
  for (int64_t i = 0; i < channels; ++i) {
    saved.sum_grad[i] = saved.sum_grad_in[i] = 0;
    for (int64_t part = 0; part < parts; ++part) {
      saved.sum_grad[i] += work.partial[part * 2 * channels + i];
      saved.sum_grad_in[i] += work.partial[(part * 2 + 1) * channels + i];
    }
    const Real centred = Real(saved.sum_grad_in[i]) - Real(saved.mean[i]) * Real(saved.sum_grad[i]);
    accumulate_real(scale, i, centred * Real(saved.inverse_sigma[i]), exponent);
    int64_t& total = offset.as<int64_t>()[i];
    total = accumulate(total, rescale_rne(saved.sum_grad[i], *offset.exponent - exponent));
  }
}

void batch_norm_backward_input(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const int64_t channels = c.grad_output.shape.last(), rows = c.grad_output.count() / channels;
  const BatchNormSaved saved(c.saved, channels);
  const BatchNormWorkspace work(c.workspace, channels);
  Real peak;
  for (int64_t i = 0; i < channels; ++i) {
    const GradientAffine a = gradient_affine(c, saved, i, Real(rows));
    peak = std::max({peak, abs(a.grad), abs(a.in)});
    if (!(a.grad + a.in + a.offset).is_finite()) c.totals->exponent_overflow = true;
  }
  const int shift = fixed_point_shift(peak, 31);
  for (int64_t i = 0; i < channels; ++i) {
    const GradientAffine a = gradient_affine(c, saved, i, Real(rows));
    work.multiplier[i] = static_cast<int32_t>(to_fixed_point(a.grad, shift, mantissa_limit(32)));
    work.in_multiplier[i] = static_cast<int32_t>(to_fixed_point(a.in, shift, mantissa_limit(32)));
    work.offset[i] = to_fixed_point(a.offset, shift, kGradientOffsetLimit);
  }
  auto args = gradient_arguments(c, channels);
  args.grad_multiplier = work.multiplier;
  args.in_multiplier = work.in_multiplier;
  args.offset = work.offset;
  args.grad_in = gradient_of(grad_input);
  const MaskedGradient grads(c);
  const Mantissas in(c.inputs[0]);
  narrow_gradient(c, grad_input, *c.grad_output.exponent - shift, [&](int narrow_shift) {
    if (is_wide_gradient(c)) {
      return narrow_elements(*c.kernel.pool, grad_input, true, narrow_shift, [&](int64_t i) {
        const int64_t channel = i % channels;
        return grads[i] * work.multiplier[channel] + in[i] * work.in_multiplier[channel] +
               work.offset[channel];
      });
    }
    args.shift = narrow_shift;
    return kernels::parallel_statistics(*c.kernel.pool, rows, batch_norm_grain(channels),
                                        [&](int64_t begin, int64_t end) {
                                          return c.kernels->batch_norm->gradient(args, begin, end);
                                        });
  });
}

}  // namespace mantissa::ops
