#include "ops/convolutions/linear_rows.h"

#include <algorithm>
#include <climits>

#include "kernels/wide_convolution/wide_convolution.h"
#include "ops/convolutions/convolution_choices.h"
#include "ops/convolutions/convolution_sums.h"
#include "ops/convolutions/convolution_wide.h"
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

const Tensor* bias_of(const OpContext& c) {
  return c.parameters.size() > 1 ? &c.parameters[1].mantissa : nullptr;
}

// Bits of the wide sums and of the bias that is added to them, each.
constexpr int kWideSumBits = 60, kLogitBits = 30;

// The least exponent of sums at which the bias fits this many bits: the bias may be far larger than
// the sums of a row with small numbers.
int least_for_bias(const Tensor* bias, int bits) {
  return bias == nullptr ? INT_MIN / 2 : *bias->exponent + bias->bits - 1 - bits;
}

// Sums of the channels, whose exponents lie `above` the least, `shift` above that one.
template <typename Sum>
void align_channels(const OpContext& c, const Sum* sums, int shift, const int32_t* above,
                    bool all_raise, int64_t channels, int64_t* wide) {
  if constexpr (sizeof(Sum) == sizeof(int32_t)) {
    if (shift == 0 && all_raise) {
      return c.kernel.table->wide->shift_sums({sums, above, wide}, 0, channels);
    }
  }
  for (int64_t o = 0; o < channels; ++o) wide[o] = rescale_rne(sums[o], shift - above[o]);
}

// Requantises `rows` rows from `first` on, each to its own maximum.
template <typename Sum>
void narrow_sums(const OpContext& c, int64_t first, int64_t rows, int weights_exponent,
                 const int32_t* above, const Sum* sums) {
  const Tensor *const bias = bias_of(c), &input = c.inputs[0];
  const int64_t channels = c.output().shape.last();
  const int least = least_for_bias(bias, kWideSumBits);
  // Except for channels so far below the others that their sums shift to the right.
  const bool all_raise = std::all_of(above, above + channels, [](int32_t n) { return n >= 0; });
  narrow_own_rows(c, first, first + rows, [&](int64_t row, int64_t* wide) {
    const Sum* from = sums + (row - first) * channels;
    const int of_sums = input.row_exponent(row) + weights_exponent;
    const int exponent = std::max(of_sums, least);
    align_channels(c, from, exponent - of_sums, above, all_raise, channels, wide);
    if (bias == nullptr) return exponent;
    c.kernel.table->wide->rescale({value_of(*bias), exponent - *bias->exponent, true, wide}, 0,
                                  channels);
    return exponent;
  });
}

// Leaves `rows` rows from `first` on in int32. Exponents of channels lie `above` the least.
template <typename Sum>
void leave_sums(const OpContext& c, int64_t first, int64_t rows, int weights_exponent,
                const int32_t* above, const Sum* sums) {
  const Tensor *const bias = bias_of(c), &input = c.inputs[0], &weights = c.parameters[0].mantissa;
  const int64_t channels = c.output().shape.last(), depth = input.shape.last();
  const int sum_bits = input.bits + weights.bits - 2 + bit_length(static_cast<uint64_t>(depth));
  const int sum_exponent = weights.largest_exponent() + sum_bits - kLogitBits;
  const int least = std::max(least_for_bias(bias, kLogitBits), kExponentMin);
  const auto leave_row = [&](int64_t row, const Sum* from) {
    const int exponent = std::max(input.row_exponent(row) + sum_exponent, least);
    c.output().row_exponents[row] = static_cast<int16_t>(exponent);
    auto* const to = c.output().as<int32_t>() + row * channels;
    const int shift = exponent - input.row_exponent(row) - weights_exponent;
    for (int64_t o = 0; o < channels; ++o) {
      to[o] = static_cast<int32_t>(rescale_rne(from[o], shift - above[o]));
    }
    if (bias == nullptr) return;
    const Mantissas of_bias(*bias);
    for (int64_t o = 0; o < channels; ++o) {
      to[o] += static_cast<int32_t>(rescale_rne(of_bias[o], exponent - *bias->exponent));
    }
  };
  kernels::parallel_ranges(*c.kernel.pool, rows, row_grain(channels),
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t row = begin; row < end; ++row) {
                               leave_row(first + row, sums + row * channels);
                             }
                           });
}

// Computes pieces of rows: compute(piece of the shape, its first row, choice, sums).
template <typename Sum, typename Choice, typename Compute>
void write_pieces_of_rows(const OpContext& c, const ConvolutionShape& shape,
                          const Compute& compute) {
  const auto& choices = choices_of<PieceChoices<Choice>>(c);
  const RowWorkspace work(c.memory.workspace, shape.out_channels);
  auto* const sums = reinterpret_cast<Sum*>(work.sums);
  const int weights_exponent = least_channel_exponent(c.parameters[0].mantissa, work.above);
  const auto write = c.output().type == DataType::kInt32 ? leave_sums<Sum> : narrow_sums<Sum>;
  for (int64_t first = 0; first < shape.batch; first += choices.piece) {
    ConvolutionShape piece = shape;
    piece.batch = std::min(choices.piece, shape.batch - first);
    compute(piece, first, choices.of(piece.batch), sums);
    write(c, first, piece.batch, weights_exponent, work.above, sums);
  }
  set_largest_row_exponent(c);
}

RowMemory row_forward_memory(const OpShapes& s, const PlanningContext& planning) {
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

// The input's rows at one exponent, which is written there, too.
Tensor aligned_input(const OpContext& c, int16_t* exponent) {
  const Tensor& input = c.inputs[0];
  const int64_t channels = input.shape.last(), rows = input.count() / channels;
  *exponent = static_cast<int16_t>(shared_exponent(input, 0, rows));
  auto* const to = reinterpret_cast<int16_t*>(c.memory.workspace);
  const Mantissas from(input);
  kernels::parallel_ranges(*c.kernel.pool, rows, row_grain(channels),
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t row = begin; row < end; ++row) {
                               const int shift = *exponent - input.row_exponent(row);
                               for (int64_t i = row * channels; i < (row + 1) * channels; ++i) {
                                 to[i] = static_cast<int16_t>(rescale_rne(from[i], shift));
                               }
                             }
                           });
  Tensor aligned = input;
  aligned.data = to;
  aligned.type = DataType::kInt16;
  aligned.bits = kSharedBits;
  aligned.exponent = exponent;
  aligned.row_exponents = nullptr;
  return aligned;
}

}  // namespace

bool is_by_rows(const OpShapes& s) {
  return !s.input_grids.empty() && s.input_grids[0].blocks == Blocks::kRow;
}

bool is_by_rows(const OpContext& c) { return c.inputs[0].row_exponents != nullptr; }

void plan_rows(const OpShapes& s, const PlanningContext& planning, OpMemory& memory) {
  const ConvolutionShape shape = convolution_shape(s);
  memory.forward = row_forward_memory(s, planning);
  const int64_t aligned = s.inputs[0].count() * int64_t{sizeof(int16_t)};
  memory.grad_weights = {
      .workspace_bytes = std::max(memory.grad_weights.workspace_bytes, aligned),
      .scratch_bytes = static_cast<int64_t>(kernels::wide_grad_weights_scratch_bytes(
          *planning.kernels, shape, kSharedBits, s.wide_gradient.bits, planning.threads))};
}

Prepared prepare_row_forward(const OpContext& c) {
  const Tensor &input = c.inputs[0], &weights = c.parameters[0].mantissa;
  const ConvolutionShape shape = convolution_shape(c, input.shape, c.output().shape);
  const int64_t rows = rows_at_once(shape, input.bits);
  if (input.bits > kByteBits) {
    return choose_pieces<WideChoices>(shape, rows, [&](const ConvolutionShape& piece) {
      return kernels::choose_wide_forward(*c.kernel.table, piece, input.bits, weights.bits);
    });
  }
  return choose_pieces<ByteChoices>(
      shape, rows, [&](const ConvolutionShape& piece) { return choose(c, {.shape = piece}); });
}

void row_forward(const OpContext& c) {
  const Tensor &input = c.inputs[0], &weights = c.parameters[0].mantissa;
  const ConvolutionShape shape = convolution_shape(c, input.shape, c.output().shape);
  if (input.bits > kByteBits) {
    const auto compute = [&](const ConvolutionShape& piece, int64_t first,
                             const kernels::WideChoice& choice, int64_t* sums) {
      const kernels::MantissaSpan rows = gradient_from(input, first * shape.in_channels);
      kernels::wide_forward(
          choice, *c.kernel.table,
          {.shape = piece, .input = rows, .weights = value_of(weights), .sums = sums}, c.kernel);
    };
    return write_pieces_of_rows<int64_t, kernels::WideChoice>(c, shape, compute);
  }
  const auto compute = [&](const ConvolutionShape& piece, int64_t first,
                           const ConvolutionChoice& choice, int32_t* sums) {
    choice.forward({.shape = piece,
                    .input = input.as<int8_t>() + first * shape.in_channels,
                    .weights = weights.as<int8_t>(),
                    .sums = sums},
                   c.kernel);
  };
  write_pieces_of_rows<int32_t, ConvolutionChoice>(c, shape, compute);
}

Prepared prepare_row_backward_weights(const OpContext& c) {
  return prepare_wide_grad_weights(c, kSharedBits);
}

void row_backward_weights(const OpContext& c) {
  if (c.parameters[0].gradient.empty()) return;
  int16_t exponent = 0;
  wide_backward_weights(c, aligned_input(c, &exponent));
}

}  // namespace mantissa::ops
