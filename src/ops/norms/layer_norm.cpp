// Layer norm and RMS norm: each row, a vector along the last dimension, is brought to mean 0 (layer
// norm only) and deviation 1, then scaled and offset by channel. Statistics are exact integer sums;
// a row has one real number, computed by integer instructions. Source: METHODS sections 0.3, 0.8.
//
// With q of a row, C channels, S = sum q and D = C q - S, V = C sum q^2 - S^2 (RMS norm: S = 0),
// x^ = D / sqrt(V + epsilon C^2 2^(-2e)): the factor is kept in 31 bits, x^ is rounded to 2^-24.
#include <algorithm>
#include <array>
#include <string>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "kernels/row_norms/elements.h"
#include "numerics/real.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/wide_sums.h"
#include "ops/wide_values.h"
#include "scalars/row_norm.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kSchema[] = {real<&RowNormAttributes::epsilon>("epsilon", 1e-5, 1e-30, 1),
                                     whole<&RowNormAttributes::least_bits>("least_bits", 0, 0, 16)};
using kernels::kNormFraction;
using kernels::RowNorm;
using NormalisedRow = std::array<int32_t, kMostRowChannels>;
static_assert(kMostRowChannels == kernels::kMostNormChannels);

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

int64_t row_bytes(int64_t rows) { return round_up<int64_t>(rows * int64_t{sizeof(RowNorm)}, 64); }

int64_t offset_bytes(int64_t channels) {
  return round_up<int64_t>(channels * int64_t{sizeof(int64_t)}, 64);
}

// A thread's sums over rows, [2, channels], of the scale and of the offset: of all its rows, and of
// a few.
struct PartialSums {
  Wide* all;
  int64_t* some;
};

int64_t partial_bytes(int64_t channels) {
  return round_up<int64_t>(2 * channels * int64_t{sizeof(Wide) + sizeof(int64_t)}, 64);
}

PartialSums partial_sums(const OpContext& c, int64_t part, int64_t channels) {
  auto* const all = reinterpret_cast<Wide*>(c.memory.workspace + part * partial_bytes(channels));
  return {all, reinterpret_cast<int64_t*>(all + 2 * channels)};
}

OpMemory memory(const OpShapes& s, const PlanningContext&) {
  const int64_t channels = s.output.last(), rows = s.output.count() / channels;
  return {.saved_bytes = row_bytes(rows),
          .forward = {.workspace_bytes = offset_bytes(channels) + row_bytes(rows)},
          .grad_weights = {.workspace_bytes = kernels::kMaximumParts * partial_bytes(channels)}};
}

kernels::ConstMantissaSpan row_of(const Tensor& tensor, int64_t row, int64_t channels) {
  return gradient_from(tensor, row * channels);
}

// The layer's epsilon for exact sums of C mantissas: times C^2.
Real scaled_epsilon(const OpContext& c, int64_t channels) {
  return Real(c.attributes<RowNormAttributes>().epsilon) * Real(channels * channels);
}

template <bool kCentred>
RowNorm row_norm(const OpContext& c, const Real& epsilon, int64_t row, int64_t channels) {
  const kernels::RowSums sums =
      c.kernel.table->row_norms->sums(row_of(c.inputs[0], row, channels), channels);
  const int exponent = c.inputs[0].row_exponent(row);
  return ref_row_norm(sums, channels, kCentred, ldexp(epsilon, -2 * exponent).plain());
}

void normalise(const OpContext& c, const RowNorm& norm, int64_t row, int64_t channels,
               NormalisedRow& x) {
  c.kernel.table->row_norms->normalise(row_of(c.inputs[0], row, channels), norm, channels,
                                       x.data());
}

RowNorm* rows_of(const OpContext& c, std::byte* otherwise) {
  return reinterpret_cast<RowNorm*>(c.memory.saved != nullptr ? c.memory.saved : otherwise);
}

// The offsets in units of wide values.
const int64_t* scaled_offsets(const OpContext& c, int wide_exponent, int64_t channels) {
  const Tensor& offset = c.parameters[1].mantissa;
  auto* const offsets = reinterpret_cast<int64_t*>(c.memory.workspace);
  for (int64_t i = 0; i < channels; ++i) {
    offsets[i] = rescale_rne(offset.as<int16_t>()[i], wide_exponent - *offset.exponent);
  }
  return offsets;
}

template <bool kCentred>
void forward(const OpContext& c) {
  const int64_t channels = c.output().shape.last(), rows = c.output().count() / channels;
  RowNorm* const norms = rows_of(c, c.memory.workspace + offset_bytes(channels));
  const Real epsilon = scaled_epsilon(c, channels);
  kernels::parallel_ranges(*c.kernel.pool, rows, row_grain(channels),
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t row = begin; row < end; ++row) {
                               norms[row] = row_norm<kCentred>(c, epsilon, row, channels);
                             }
                           });
  const Tensor& scale = c.parameters[0].mantissa;
  const int exponent = *scale.exponent - kNormFraction;
  const int64_t* offsets = nullptr;
  if constexpr (kCentred) offsets = scaled_offsets(c, exponent, channels);
  write_rows(
      c, [&](int64_t) { return exponent; },
      [&](int64_t row, int, int64_t* wide) {
        NormalisedRow x;
        normalise(c, norms[row], row, channels, x);
        c.kernel.table->row_norms->scale(x.data(), scale.as<int16_t>(), offsets, channels, wide);
      });
}

// Adds the gradients of rows [begin, end), of at most 16 bits.
void add_rows(const OpContext& c, const RowNorm* norms, int64_t begin, int64_t end,
              int64_t channels, const PartialSums& sums) {
  std::fill_n(sums.some, 2 * channels, int64_t{0});
  NormalisedRow x;
  for (int64_t row = begin; row < end; ++row) {
    normalise(c, norms[row], row, channels, x);
    c.kernel.table->row_norms->add_gradients(x.data(), row_of(c.grad_output(), row, channels),
                                             channels, sums.some, sums.some + channels);
  }
  for (int64_t i = 0; i < 2 * channels; ++i) sums.all[i] += sums.some[i];
}

// The same of wider gradients.
void add_wide_rows(const OpContext& c, const RowNorm* norms, int64_t begin, int64_t end,
                   int64_t channels, const PartialSums& sums) {
  const Mantissas grads(c.grad_output());
  NormalisedRow x;
  for (int64_t row = begin; row < end; ++row) {
    normalise(c, norms[row], row, channels, x);
    for (int64_t i = 0; i < channels; ++i) {
      const int64_t g = grads[row * channels + i];
      sums.all[i] += Wide{g} * x[static_cast<size_t>(i)];
      sums.all[channels + i] += g;
    }
  }
}

// Sums over rows of the gradient, and of the gradient times x^, exact and rounded once.
template <bool kCentred>
void backward_weights(const OpContext& c) {
  const int64_t channels = c.grad_output().shape.last(), rows = c.grad_output().count() / channels;
  const RowNorm* const norms = rows_of(c, nullptr);
  const auto add = c.grad_output().bits <= 16 ? add_rows : add_wide_rows;
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, rows, row_grain(channels), [&](int64_t begin, int64_t end, int64_t part) {
        const PartialSums sums = partial_sums(c, part, channels);
        std::fill_n(sums.all, 2 * channels, Wide{0});
        for (int64_t at = begin; at < end; at += kernels::kMostNormRows) {
          add(c, norms, at, std::min(end, at + kernels::kMostNormRows), channels, sums);
        }
      });
  const int fractions[] = {kNormFraction, 0};
  for (int p = 0; p < (kCentred ? 2 : 1); ++p) {
    const Tensor& gradient = c.parameters[p].gradient;
    if (gradient.empty()) continue;
    add_sums(gradient, *c.grad_output().exponent - fractions[p], [&](int64_t i) {
      Wide sum = 0;
      for (int64_t part = 0; part < parts; ++part) {
        sum += partial_sums(c, part, channels).all[p * channels + i];
      }
      return sum;
    });
  }
}

template <bool kCentred>
void backward_input(const OpContext& c) {
  const Tensor &input = c.inputs[0], &grad_input = c.grad_inputs[0];
  const int64_t channels = grad_input.shape.last(), rows = grad_input.count() / channels;
  const RowNorm* const norms = rows_of(c, nullptr);
  // The gradient of a row is in units of 2^-below(row), from the row's exponent and factor. All
  // rows are brought to the largest of these units.
  const auto below = [&](int64_t row) { return norms[row].shift + input.row_exponent(row); };
  int least_below = below(0);
  for (int64_t row = 1; row < rows; ++row) least_below = std::min(least_below, below(row));
  const int wide_exponent = *c.grad_output().exponent + *c.parameters[0].mantissa.exponent -
                            least_below + kernels::kNormProductShift;
  const auto fill = [&](int64_t row, int64_t* wide) {
    NormalisedRow x;
    normalise(c, norms[row], row, channels, x);
    const kernels::RowNormGradient args{
        .x = x.data(),
        .scale = c.parameters[0].mantissa.as<int16_t>(),
        .centred = kCentred,
        .factor = norms[row].factor,
        .shift = kernels::kNormProductShift + below(row) - least_below};
    c.kernel.table->row_norms->gradient(args, row_of(c.grad_output(), row, channels), channels,
                                        wide);
  };
  narrow_gradient(c, grad_input, wide_exponent, [&](int shift, const kernels::PassCounts& counts) {
    return narrow_rows(c, grad_input, true, shift, fill, counts);
  });
}

template <bool kCentred>
constexpr Op norm_row(const char* name, const OpRows* fp32) {
  return {.name = name,
          .traits = {.takes = TakenExponents::kOfRows, .row_by_row = true},
          .attributes = schema<RowNormAttributes>(kSchema),
          .bits = least_bits<RowNormAttributes>,
          .infer_shape = infer,
          .parameters = kCentred ? scale_and_offset : scale_only,
          .integer = {.memory = memory,
                      .forward = {.run = forward<kCentred>},
                      .grad_input = {.run = backward_input<kCentred>},
                      .grad_weights = {.run = backward_weights<kCentred>},
                      .kernel = kernel_name<&kernels::KernelTable::row_norms>},
          .emit_gradient = emit_weighted_gradient,
          .fp32 = fp32};
}

}  // namespace

const Op kLayerNorm = norm_row<true>("layer_norm", &fp32::kLayerNorm);
const Op kRmsNorm = norm_row<false>("rms_norm", &fp32::kRmsNorm);

}  // namespace mantissa::ops
