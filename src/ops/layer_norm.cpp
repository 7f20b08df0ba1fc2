// Layer norm and RMS norm: each row, a vector along the last dimension, is brought to mean 0 (layer
// norm only) and deviation 1, then scaled and offset by channel. Statistics are exact integer sums;
// a row has one real number, computed by integer instructions. Source: METHODS sections 0.3, 0.8.
//
// With q of a row, C channels, S = sum q and D = C q - S, V = C sum q^2 - S^2 (RMS norm: S = 0),
// x^ = D / sqrt(V + epsilon C^2 2^(-2e)): the factor is kept in 31 bits, x^ is rounded to 2^-24.
#include <algorithm>
#include <string>

#include "kernels/kernel_table.h"
#include "kernels/parallel_ranges.h"
#include "numerics/real.h"
#include "ops/fp32/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

// "least_bits": mantissas of the result have at least so many.
constexpr AttributeSpec kSchema[] = {real("epsilon", 1e-5, 1e-30, 1),
                                     whole("least_bits", 0, 0, 16)};
constexpr int kFactorBits = 31;
constexpr int kFraction = 24;  // of x^
using Wide = __int128;         // sums of gradients times x^

Result<Shape> infer(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].rank == 0) return invalid_input("wants one [..., C] input");
  if (inputs[0].last() > kMostRowChannels) {
    return invalid_input("wants at most " + std::to_string(kMostRowChannels) + " channels");
  }
  return inputs[0];
}

Parameter channel_parameter(const char* name, const Shape& input, Initialiser initialiser) {
  return {.name = name,
          .shape = Shape{input.last()},
          .storage = Storage::kMantissa16,
          .initialiser = initialiser};
}

std::vector<Parameter> scale_and_offset(const Attributes&, std::span<const Shape> inputs) {
  return {channel_parameter("scale", inputs[0], Initialiser::kOne),
          channel_parameter("offset", inputs[0], Initialiser::kZero)};
}

std::vector<Parameter> scale_only(const Attributes&, std::span<const Shape> inputs) {
  return {channel_parameter("scale", inputs[0], Initialiser::kOne)};
}

// The normalisation of a row: x^ = (C q - sum) * factor * 2^-shift.
struct RowNorm {
  int64_t sum = 0;
  int32_t factor = 0;
  int32_t shift = 0;
};

int64_t row_bytes(int64_t rows) { return round_up<int64_t>(rows * int64_t{sizeof(RowNorm)}, 64); }

OpMemory memory(const OpShapes& s, const PlanningContext&) {
  const int64_t channels = s.output.last(), rows = s.output.count() / channels;
  return {.saved_bytes = row_bytes(rows),
          .forward = {.workspace_bytes = row_bytes(rows)},
          .backward_weights = {.workspace_bytes =
                                   kernels::kMaximumParts * 2 * channels * int64_t{sizeof(Wide)}}};
}

template <bool kCentred>
RowNorm row_norm(const OpContext& c, const Mantissas& in, int64_t row, int64_t channels) {
  RowNorm norm;
  int64_t squares = 0;
  for (int64_t i = row * channels; i < (row + 1) * channels; ++i) {
    const int64_t q = in[i];
    if (kCentred) norm.sum += q;
    squares += q * q;
  }
  const int exponent = c.inputs[0].row_exponent(row);
  const Real epsilon =
      ldexp(Real(c.attributes->real("epsilon")) * Real(channels * channels), -2 * exponent);
  const Real factor = Real(1) / sqrt(Real(channels * squares - norm.sum * norm.sum) + epsilon);
  norm.shift = fixed_point_shift(factor, kFactorBits);
  norm.factor =
      static_cast<int32_t>(to_fixed_point(factor, norm.shift, mantissa_limit(kFactorBits + 1)));
  return norm;
}

// x^ of an element in units of 2^-24.
int64_t normalised(const RowNorm& norm, int64_t channels, int64_t q) {
  return rescale_rne((channels * q - norm.sum) * norm.factor, norm.shift - kFraction);
}

RowNorm* rows_of(const OpContext& c, std::byte* otherwise) {
  return reinterpret_cast<RowNorm*>(c.saved != nullptr ? c.saved : otherwise);
}

template <bool kCentred>
void forward(const OpContext& c) {
  const int64_t channels = c.output.shape.last(), rows = c.output.count() / channels;
  const Mantissas in(c.inputs[0]);
  RowNorm* const norms = rows_of(c, c.workspace);
  kernels::parallel_ranges(*c.kernel.pool, rows, row_grain(channels),
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t row = begin; row < end; ++row) {
                               norms[row] = row_norm<kCentred>(c, in, row, channels);
                             }
                           });
  const Tensor& scale = c.parameters[0].mantissa;
  const auto* gamma = scale.as<int16_t>();
  const auto exponent_at = [&](int64_t) { return *scale.exponent - kFraction; };
  write_rows(c, exponent_at, [&](int64_t row, int wide_exponent, int64_t* wide) {
    for (int64_t i = 0; i < channels; ++i) {
      wide[i] = normalised(norms[row], channels, in[row * channels + i]) * gamma[i];
    }
    if constexpr (kCentred) {
      const Tensor& offset = c.parameters[1].mantissa;
      const int shift = wide_exponent - *offset.exponent;
      for (int64_t i = 0; i < channels; ++i) {
        wide[i] += rescale_rne(offset.as<int16_t>()[i], shift);
      }
    }
  });
}

// n * 2^-shift to nearest, ties to even; |n| < 2^125, and the result fits int64.
int64_t rounded(Wide n, int shift) {
  if (shift > 120) return 0;
  if (shift == 0) return static_cast<int64_t>(n);
  const Wide half = Wide{1} << (shift - 1);
  return static_cast<int64_t>((n + half - 1 + ((n >> shift) & 1)) >> shift);
}

// n * 2^-shift for any shift, as rescale_rne.
int64_t rescaled(Wide n, int shift) {
  if (shift >= 0) return rounded(n, shift);
  const Wide size = n < 0 ? -n : n;
  if (bit_length(static_cast<unsigned __int128>(size)) - shift > 61) {
    return n < 0 ? -kWideLimit : kWideLimit;
  }
  return static_cast<int64_t>(n) * (int64_t{1} << -shift);
}

// Sums over rows of the gradient, and of the gradient times x^, exact and rounded once.
template <bool kCentred>
void backward_weights(const OpContext& c) {
  const int64_t channels = c.grad_output.shape.last(), rows = c.grad_output.count() / channels;
  const Mantissas in(c.inputs[0]), grads(c.grad_output);
  const RowNorm* const norms = rows_of(c, nullptr);
  auto* const partial = reinterpret_cast<Wide*>(c.workspace);
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, rows, row_grain(channels), [&](int64_t begin, int64_t end, int64_t part) {
        Wide* const of_scale = partial + part * 2 * channels;
        Wide* const of_offset = of_scale + channels;
        std::fill_n(of_scale, 2 * channels, Wide{0});
        for (int64_t row = begin; row < end; ++row) {
          for (int64_t i = 0; i < channels; ++i) {
            const int64_t g = grads[row * channels + i];
            const int64_t x = normalised(norms[row], channels, in[row * channels + i]);
            of_scale[i] += Wide{g} * x;
            of_offset[i] += g;
          }
        }
      });
  const int fractions[] = {kFraction, 0};
  for (int p = 0; p < (kCentred ? 2 : 1); ++p) {
    const Tensor& gradient = c.parameters[p].gradient;
    if (gradient.empty()) continue;
    const int shift = *gradient.exponent - (*c.grad_output.exponent - fractions[p]);
    for (int64_t i = 0; i < channels; ++i) {
      Wide sum = 0;
      for (int64_t part = 0; part < parts; ++part) {
        sum += partial[(2 * part + p) * channels + i];
      }
      int64_t& total = gradient.as<int64_t>()[i];
      total = accumulate(total, rescaled(sum, shift));
    }
  }
}

// Bits that products with the factor lose at least, so that they fit int64.
constexpr int kProductShift = 30;

// dx = (1 / sigma) (d - mean of d - x^ * mean of d x^) with d = scale dy; RMS norm has no mean of
// d.
template <bool kCentred>
void gradient_of_row(const OpContext& c, const Mantissas& in, const Mantissas& grads,
                     const RowNorm& norm, int64_t row, int least_shift, int64_t* wide) {
  const int64_t channels = c.grad_output.shape.last();
  const auto* gamma = c.parameters[0].mantissa.as<int16_t>();
  int64_t sum = 0;
  Wide sum_x = 0;
  for (int64_t i = 0; i < channels; ++i) {
    const int64_t at = row * channels + i;
    const int64_t d = grads[at] * gamma[i];
    if (kCentred) sum += d;
    sum_x += Wide{d} * normalised(norm, channels, in[at]);
  }
  const int shift = kProductShift + norm.shift - least_shift;
  for (int64_t i = 0; i < channels; ++i) {
    const int64_t at = row * channels + i;
    const int64_t x = normalised(norm, channels, in[at]);
    const int64_t centred =
        channels * (grads[at] * gamma[i]) - sum - rounded(x * sum_x, 2 * kFraction);
    wide[i] = rounded(Wide{centred} * norm.factor, shift);
  }
}

template <bool kCentred>
void backward_input(const OpContext& c) {
  const Tensor &input = c.inputs[0], &grad_input = c.grad_inputs[0];
  const int64_t rows = grad_input.count() / grad_input.shape.last();
  const Mantissas in(input), grads(c.grad_output);
  const RowNorm* const norms = rows_of(c, nullptr);
  const int least_shift = std::min_element(norms, norms + rows, [](const auto& a, const auto& b) {
                            return a.shift < b.shift;
                          })->shift;
  const int wide_exponent = *c.grad_output.exponent + *c.parameters[0].mantissa.exponent -
                            *input.exponent - least_shift + kProductShift;
  narrow_gradient(c, grad_input, wide_exponent, [&](int shift) {
    return narrow_rows(c, grad_input, true, shift, [&](int64_t row, int64_t* wide) {
      gradient_of_row<kCentred>(c, in, grads, norms[row], row, least_shift, wide);
    });
  });
}

template <bool kCentred>
constexpr Op norm_row(const char* name, const OpFunctions* fp32) {
  return {.name = name,
          .traits = {.weights_read_input = true,
                     .input_reads_input = true,
                     .takes_rows = true,
                     .row_by_row = true},
          .attributes = kSchema,
          .infer_shape = infer,
          .parameters = kCentred ? scale_and_offset : scale_only,
          .memory = memory,
          .forward = forward<kCentred>,
          .backward_input = backward_input<kCentred>,
          .backward_weights = backward_weights<kCentred>,
          .kernel = kernel_name<&kernels::KernelTable::wide>,
          .fp32 = fp32};
}

}  // namespace

const Op kLayerNorm = norm_row<true>("layer_norm", &fp32::kLayerNorm);
const Op kRmsNorm = norm_row<false>("rms_norm", &fp32::kRmsNorm);

}  // namespace mantissa::ops
