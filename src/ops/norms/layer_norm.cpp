// Layer norm and RMS norm: each row, a vector along the last dimension, is brought to mean 0 (layer
// norm only) and deviation 1, then scaled and offset by channel. Statistics are exact integer sums;
// a row has one real number, computed by integer instructions. Source: METHODS sections 0.3, 0.8.
// With `heads` a row is as many vectors, each with a norm of its own and the same scale.
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
                                     whole<&RowNormAttributes::heads>("heads", 1, 1, 4096),
                                     whole<&RowNormAttributes::least_bits>("least_bits", 0, 0, 16)};
using kernels::kMostNormChannels;
using kernels::kNormFraction;
using kernels::RowNorm;
using NormalisedVector = std::array<int32_t, kMostNormChannels>;

// The vectors that a value's rows are: `heads` in each row.
struct Vectors {
  int64_t heads, channels, count;
  Vectors(const RowNormAttributes& attributes, const Shape& x)
      : heads(attributes.heads), channels(x.last() / heads), count(x.count() / channels) {}
  Vectors(const OpContext& c, const Tensor& x)
      : Vectors(c.attributes<RowNormAttributes>(), x.shape) {}
};

Result<Shape> infer(const Attributes& given, std::span<const Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].rank == 0) return invalid_input("wants one [..., C] input");
  const int64_t heads = given.as<RowNormAttributes>().heads, channels = inputs[0].last();
  if (channels % heads != 0) {
    return invalid_input("wants heads that divide its " + std::to_string(channels) +
                         " channels, not " + std::to_string(heads));
  }
  if (channels / heads > kMostNormChannels || channels > kMostRowChannels) {
    return invalid_input("wants at most " + std::to_string(kMostNormChannels) +
                         " channels, and as many in each of its heads, at most " +
                         std::to_string(kMostRowChannels) + " in all");
  }
  return inputs[0];
}

Parameter channel_parameter(const char* name, const Attributes& given, const Shape& input,
                            Initialiser initialiser) {
  return {.name = name,
          .shape = Shape{Vectors(given.as<RowNormAttributes>(), input).channels},
          .storage = Storage::kMantissa16,
          .initialiser = initialiser};
}

std::vector<Parameter> scale_and_offset(const Attributes& given, std::span<const Shape> inputs) {
  return {channel_parameter("scale", given, inputs[0], Initialiser::kOne),
          channel_parameter("offset", given, inputs[0], Initialiser::kZero)};
}

std::vector<Parameter> scale_only(const Attributes& given, std::span<const Shape> inputs) {
  return {channel_parameter("scale", given, inputs[0], Initialiser::kOne)};
}

int64_t norm_bytes(int64_t vectors) {
  return round_up<int64_t>(vectors * int64_t{sizeof(RowNorm)}, 64);
}

int64_t offset_bytes(int64_t channels) {
  return round_up<int64_t>(channels * int64_t{sizeof(int64_t)}, 64);
}

// A thread's sums over vectors, [2, channels], of the scale and of the offset: of all its vectors,
// and of a few.
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
  const Vectors vectors(s.attributes->as<RowNormAttributes>(), s.output);
  return {.saved_bytes = norm_bytes(vectors.count),
          .forward = {.workspace_bytes = offset_bytes(vectors.channels) + norm_bytes(vectors.count)},
          .grad_weights = {.workspace_bytes =
                               kernels::kMaximumParts * partial_bytes(vectors.channels)}};
}

kernels::ConstMantissaSpan vector_of(const Tensor& tensor, int64_t v, int64_t channels) {
  return gradient_from(tensor, v * channels);
}

// The layer's epsilon for exact sums of C mantissas: times C^2.
Real scaled_epsilon(const OpContext& c, int64_t channels) {
  return Real(c.attributes<RowNormAttributes>().epsilon) * Real(channels * channels);
}

template <bool kCentred>
RowNorm norm_of(const OpContext& c, const Real& epsilon, int64_t v, const Vectors& vectors) {
  const int64_t channels = vectors.channels;
  const kernels::RowSums sums =
      c.kernel.table->row_norms->sums(vector_of(c.inputs[0], v, channels), channels);
  const int exponent = c.inputs[0].row_exponent(v / vectors.heads);
  return ref_row_norm(sums, channels, kCentred, ldexp(epsilon, -2 * exponent).plain());
}

void normalise(const OpContext& c, const RowNorm& norm, int64_t v, int64_t channels,
               NormalisedVector& x) {
  c.kernel.table->row_norms->normalise(vector_of(c.inputs[0], v, channels), norm, channels,
                                       x.data());
}

RowNorm* norms_in(const OpContext& c, std::byte* otherwise) {
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
  const Vectors vectors(c, c.output());
  const int64_t channels = vectors.channels;
  RowNorm* const norms = norms_in(c, c.memory.workspace + offset_bytes(channels));
  const Real epsilon = scaled_epsilon(c, channels);
  kernels::parallel_ranges(*c.kernel.pool, vectors.count, row_grain(channels),
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t v = begin; v < end; ++v) {
                               norms[v] = norm_of<kCentred>(c, epsilon, v, vectors);
                             }
                           });
  const Tensor& scale = c.parameters[0].mantissa;
  const int exponent = *scale.exponent - kNormFraction;
  const int64_t* offsets = nullptr;
  if constexpr (kCentred) offsets = scaled_offsets(c, exponent, channels);
  write_rows(
      c, [&](int64_t) { return exponent; },
      [&](int64_t row, int, int64_t* wide) {
        NormalisedVector x;
        for (int64_t v = row * vectors.heads; v < (row + 1) * vectors.heads; ++v, wide += channels) {
          normalise(c, norms[v], v, channels, x);
          c.kernel.table->row_norms->scale(x.data(), scale.as<int16_t>(), offsets, channels, wide);
        }
      });
}

// Adds the gradients of vectors [begin, end), of at most 16 bits.
void add_vectors(const OpContext& c, const RowNorm* norms, int64_t begin, int64_t end,
                 int64_t channels, const PartialSums& sums) {
  std::fill_n(sums.some, 2 * channels, int64_t{0});
  NormalisedVector x;
  for (int64_t v = begin; v < end; ++v) {
    normalise(c, norms[v], v, channels, x);
    c.kernel.table->row_norms->add_gradients(x.data(), vector_of(c.grad_output(), v, channels),
                                             channels, sums.some, sums.some + channels);
  }
  for (int64_t i = 0; i < 2 * channels; ++i) sums.all[i] += sums.some[i];
}

// The same of wider gradients.
void add_wide_vectors(const OpContext& c, const RowNorm* norms, int64_t begin, int64_t end,
                      int64_t channels, const PartialSums& sums) {
  const Mantissas grads(c.grad_output());
  NormalisedVector x;
  for (int64_t v = begin; v < end; ++v) {
    normalise(c, norms[v], v, channels, x);
    for (int64_t i = 0; i < channels; ++i) {
      const int64_t g = grads[v * channels + i];
      sums.all[i] += Wide{g} * x[static_cast<size_t>(i)];
      sums.all[channels + i] += g;
    }
  }
}

// Sums over vectors of the gradient, and of the gradient times x^, exact and rounded once.
template <bool kCentred>
void backward_weights(const OpContext& c) {
  const Vectors vectors(c, c.grad_output());
  const int64_t channels = vectors.channels;
  const RowNorm* const norms = norms_in(c, nullptr);
  const auto add = c.grad_output().bits <= 16 ? add_vectors : add_wide_vectors;
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, vectors.count, row_grain(channels),
      [&](int64_t begin, int64_t end, int64_t part) {
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
  const Vectors vectors(c, grad_input);
  const int64_t channels = vectors.channels;
  const RowNorm* const norms = norms_in(c, nullptr);
  // The gradient of a vector is in units of 2^-below(v), from its row's exponent and its factor.
  // All are brought to the largest of these units.
  const auto below = [&](int64_t v) {
    return norms[v].shift + input.row_exponent(v / vectors.heads);
  };
  int least_below = below(0);
  for (int64_t v = 1; v < vectors.count; ++v) least_below = std::min(least_below, below(v));
  const int wide_exponent = *c.grad_output().exponent + *c.parameters[0].mantissa.exponent -
                            least_below + kernels::kNormProductShift;
  const auto fill = [&](int64_t row, int64_t* wide) {
    NormalisedVector x;
    for (int64_t v = row * vectors.heads; v < (row + 1) * vectors.heads; ++v, wide += channels) {
      normalise(c, norms[v], v, channels, x);
      const kernels::RowNormGradient args{
          .x = x.data(),
          .scale = c.parameters[0].mantissa.as<int16_t>(),
          .centred = kCentred,
          .factor = norms[v].factor,
          .shift = kernels::kNormProductShift + below(v) - least_below};
      c.kernel.table->row_norms->gradient(args, vector_of(c.grad_output(), v, channels), channels,
                                          wide);
    }
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
