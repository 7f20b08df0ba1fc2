#include "ops/linear_rows.h"

#include <algorithm>

#include "kernels/wide_convolution/wide_convolution.h"
#include "ops/convolution_choices.h"
#include "ops/convolution_sums.h"
#include "ops/rows.h"

namespace mantissa::ops {
namespace {

using kernels::ConvolutionShape;

// Inputs of more than 8 bits, whose sums have 64.
constexpr int kByteBits = 8;
using ByteChoices = PieceChoices<ConvolutionChoice>;
using WideChoices = PieceChoices<kernels::WideChoice>;

int64_t rows_at_once(const ConvolutionShape& shape, int input_bits) {
  return input_bits > kByteBits ? kernels::wide_images_per_chunk(shape)
                                : kernels::images_per_chunk(shape);
}

// Calls choose(shape) for pieces of rows.
template <typename Choices, typename Choose>
Prepared choose_pieces(const ConvolutionShape& shape, int64_t rows, const Choose& choose) {
  return prepared(Choices(shape.batch, rows, [&](int64_t some) {
    ConvolutionShape piece = shape;
    piece.batch = some;
    return choose(piece);
  }));
}

// The workspace: shifts of channels, then sums of a piece.
struct RowWorkspace {
  int32_t* above;
  std::byte* sums;
  RowWorkspace(std::byte* base, int64_t channels)
      : above(reinterpret_cast<int32_t*>(base)), sums(base + channel_bytes(channels)) {}
};

// Sums of the channels at the exponent of the least one. `all_raise`: no channel is so far below
// the largest that its sums shift to the right.
template <typename Sum>
void align_channels(const OpContext& c, const Sum* sums, const int32_t* above, bool all_raise,
                    int64_t channels, int64_t* wide) {
  if constexpr (sizeof(Sum) == sizeof(int32_t)) {
    if (all_raise) return c.kernels->wide->shift_sums({sums, above, wide}, 0, channels);
  }
  for (int64_t o = 0; o < channels; ++o) wide[o] = rescale_rne(sums[o], -above[o]);
}

// Computes pieces of rows: compute(piece of the shape, its first row, choice, sums).
template <typename Sum, typename Choice, typename Compute>
void narrow_pieces(const OpContext& c, const ConvolutionShape& shape, const Compute& compute) {
  const auto& choices = choices_of<PieceChoices<Choice>>(c);
  const Tensor &input = c.inputs[0], &weights = c.parameters[0].mantissa;
  const int64_t channels = shape.out_channels;
  const RowWorkspace work(c.workspace, channels);
  auto* const sums = reinterpret_cast<Sum*>(work.sums);
  const int weights_exponent = least_channel_exponent(weights, work.above);
  const bool all_raise =
      std::all_of(work.above, work.above + channels, [](int32_t above) { return above >= 0; });
  const Tensor* const bias = c.parameters.size() > 1 ? &c.parameters[1].mantissa : nullptr;
  for (int64_t first = 0; first < shape.batch; first += choices.piece) {
    ConvolutionShape piece = shape;
    piece.batch = std::min(choices.piece, shape.batch - first);
    compute(piece, first, choices.of(piece.batch), sums);
    narrow_own_rows(c, first, first + piece.batch, [&](int64_t row, int64_t* wide) {
      const Sum* from = sums + (row - first) * channels;
      const int exponent = input.row_exponent(row) + weights_exponent;
      align_channels(c, from, work.above, all_raise, channels, wide);
      if (bias == nullptr) return exponent;
      c.kernels->wide->rescale({value_of(*bias), exponent - *bias->exponent, true, wide}, 0,
                               channels);
      return exponent;
    });
  }
  set_largest_row_exponent(c);
}

}  // namespace

bool is_by_rows(const OpShapes& s) {
  return !s.input_grids.empty() && s.input_grids[0].blocks == Blocks::kRow;
}

bool is_by_rows(const OpContext& c) { return c.inputs[0].row_exponents != nullptr; }

PhaseMemory row_forward_memory(const OpShapes& s, const PlanningContext& planning) {
  const ConvolutionShape shape = convolution_shape(s);
  const int bits = s.input_bits(0), weight_bits = s.parameter_grids[0].bits;
  const int64_t rows = rows_at_once(shape, bits);
  const int64_t sum_bytes = bits > kByteBits ? sizeof(int64_t) : sizeof(int32_t);
  const auto scratch_bytes = [&](const ConvolutionShape& piece) {
    const kernels::KernelTable& table = *planning.kernels;
    return bits > kByteBits ? kernels::wide_forward_scratch_bytes(table, piece, bits, weight_bits,
                                                                  planning.threads)
                            : kernels::convolution_scratch_bytes(
                                  table.convolution, {.shape = piece}, planning.threads);
  };
  return {channel_bytes(shape.out_channels) + rows * shape.out_channels * sum_bytes,
          chunk_scratch_bytes(shape, rows, scratch_bytes)};
}

Prepared prepare_row_forward(const OpContext& c) {
  const Tensor &input = c.inputs[0], &weights = c.parameters[0].mantissa;
  const ConvolutionShape shape = convolution_shape(c, input.shape, c.output.shape);
  const int64_t rows = rows_at_once(shape, input.bits);
  if (input.bits > kByteBits) {
    return choose_pieces<WideChoices>(shape, rows, [&](const ConvolutionShape& piece) {
      return kernels::choose_wide_forward(*c.kernels, piece, input.bits, weights.bits);
    });
  }
  return choose_pieces<ByteChoices>(
      shape, rows, [&](const ConvolutionShape& piece) { return choose(c, {.shape = piece}); });
}

void row_forward(const OpContext& c) {
  const Tensor &input = c.inputs[0], &weights = c.parameters[0].mantissa;
  const ConvolutionShape shape = convolution_shape(c, input.shape, c.output.shape);
  if (input.bits > kByteBits) {
    const auto compute = [&](const ConvolutionShape& piece, int64_t first,
                             const kernels::WideChoice& choice, int64_t* sums) {
      const kernels::MantissaSpan rows = gradient_from(input, first * shape.in_channels);
      kernels::wide_forward(
          choice, *c.kernels,
          {.shape = piece, .input = rows, .weights = value_of(weights), .sums = sums}, c.kernel);
    };
    return narrow_pieces<int64_t, kernels::WideChoice>(c, shape, compute);
  }
  const auto compute = [&](const ConvolutionShape& piece, int64_t first,
                           const ConvolutionChoice& choice, int32_t* sums) {
    choice.forward({.shape = piece,
                    .input = input.as<int8_t>() + first * shape.in_channels,
                    .weights = weights.as<int8_t>(),
                    .sums = sums},
                   c.kernel);
  };
  narrow_pieces<int32_t, ConvolutionChoice>(c, shape, compute);
}

}  // namespace mantissa::ops
