// Gradients of norms that are g * grad + q * in + offset for each channel, of the gradient g that
// comes in and the mantissa q: the three real numbers of channels as integers. Shared by batch norm
// and group norm.
#pragma once

#include <algorithm>

#include "kernels/batch_norm/batch_norm.h"
#include "numerics/real.h"
#include "ops/norms/batch_norm_parts.h"

namespace mantissa::ops {

struct GradientAffine {
  Real grad, in, offset;
};

// (scale / sigma) (g - mean(g) - x^ mean(g x^)) with x^ = (q - mean) * inverse_sigma: `scale_grad`
// is scale / sigma in real units, `sum_grad` and `sum_centred` the sums of g and of g (q - mean)
// over so many elements.
inline GradientAffine norm_gradient(const Real& scale_grad, const Real& mean,
                                    const Real& inverse_sigma, const Real& sum_grad,
                                    const Real& sum_centred, const Real& count) {
  const Real in = -scale_grad * inverse_sigma * (sum_centred * inverse_sigma) / count;
  return {scale_grad, in, -scale_grad * sum_grad / count - in * mean};
}

// Units of wide results, 2^-wide of the gradient's, and of the inputs' multipliers, 2^in_shift
// times as large.
struct GradientUnits {
  int wide = 0, in_shift = 0;
};

// Three integers for each channel, as kernels::BatchNormGradient has them.
struct GradientIntegers {
  int32_t *grad, *in;
  int64_t* offset;
};

// Writes them for `channels` channels: affine(i) gives the real numbers of channel i, for which
// `reals` has room. Mantissas of inputs are below 2^input_bits.
//
// Multipliers have 31 bits. For gradients of 32 bits the gradient's multipliers have 28. Products
// with the gradient, and with inputs, then stay below 2^59; offsets, the sums of two such, below
// 2^60; and wide results below 2^61. Inputs are so much shorter than these gradients that their
// multipliers need a unit of their own.
template <typename Affine>
GradientUnits write_gradient_integers(const OpContext& c, int input_bits, int64_t channels,
                                      const Affine& affine, Real* reals,
                                      const GradientIntegers& to) {
  constexpr int64_t kOffsetLimit = int64_t{1} << 60;
  constexpr int kProductBits = 59;
  const Peak peak = peak_of_channels(c, channels, [&](int64_t begin, int64_t end) {
    Peak found;
    for (int64_t i = begin; i < end; ++i) {
      const GradientAffine a = affine(i);
      reals[3 * i] = a.grad;
      reals[3 * i + 1] = a.in;
      reals[3 * i + 2] = a.offset;
      found.add(a.grad);
      found.add(a.in);
      found.is_finite &= a.offset.is_finite();
    }
    return found;
  });
  if (!peak.is_finite) c.step.totals->exponent_overflow = true;
  GradientUnits units{fixed_point_shift(peak.value, 31), 0};
  if (c.grad_output().bits > 16) {
    Real of_gradient, of_input;
    for (int64_t i = 0; i < channels; ++i) {
      of_gradient = std::max(of_gradient, abs(reals[3 * i]));
      of_input = std::max(of_input, abs(reals[3 * i + 1]));
    }
    units = {fixed_point_shift(of_gradient, kProductBits - 31), 0};
    if (!of_input.is_zero()) {
      const int largest = fixed_point_shift(of_input, kProductBits - input_bits);
      const int shift = of_gradient.is_zero() ? largest : std::min(units.wide, largest);
      units = {shift, std::max(0, shift - fixed_point_shift(of_input, 31))};
    }
  }
  const auto multiplier = [](const Real& real, int shift) {
    return static_cast<int32_t>(to_fixed_point(real, shift, mantissa_limit(32)));
  };
  for (int64_t i = 0; i < channels; ++i) {
    const Real* of = reals + 3 * i;
    to.grad[i] = multiplier(of[0], units.wide);
    to.in[i] = multiplier(of[1], units.wide - units.in_shift);
    to.offset[i] = to_fixed_point(of[2], units.wide, kOffsetLimit);
  }
  return units;
}

// Adds a real number in units of 2^exponent to a gradient accumulator.
inline void accumulate_real(const Tensor& gradient, int64_t i, const Real& value, int exponent) {
  int64_t& total = gradient.as<int64_t>()[i];
  total = accumulate(total, to_fixed_point(value, exponent - *gradient.exponent, kWideLimit));
}

}  // namespace mantissa::ops
