#include "ops/convolutions/linear_rows.h"

#include <algorithm>
#include <array>
#include <climits>

#include "base/checked.h"
#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
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

// Whether the weights are multiplied as they lie (kernels/row_products).
bool has_few_rows(const ConvolutionShape& shape, int weight_bits) {
  return shape.batch <= kernels::kMostFewRows && weight_bits <= kByteBits;
}

// Choices for pieces of rows, for slices of channels.
template <typename Choice>
using SliceChoices = PieceChoices<PieceChoices<Choice>>;

// Channels that are computed at once. Logits of many classes are left as they are, and their rows
// are long: a piece would have few rows, and would pack all weights for them.
int64_t channels_at_once(const ConvolutionShape& shape, DataType output) {
  constexpr int64_t kManyWeights = int64_t{1} << 22, kSlice = int64_t{1} << 18, kUnit = 64;
  if (output != DataType::kInt32 || shape.weights_count() < kManyWeights) {
    return shape.out_channels;
  }
  const int64_t wanted = std::max<int64_t>(1, kSlice / shape.in_channels);
  return std::min(shape.out_channels, round_up<int64_t>(wanted, kUnit));
}

ConvolutionShape with_channels(ConvolutionShape shape, int64_t channels) {
  shape.out_channels = channels;
  return shape;
}

int64_t rows_at_once(const ConvolutionShape& shape, int input_bits) {
  return input_bits > kByteBits ? kernels::wide_images_per_chunk(shape)
                                : kernels::images_per_chunk(shape);
}

// Calls choose(shape) for pieces of rows and slices of channels.
template <typename Choice, typename Choose>
Prepared choose_pieces(const OpContext& c, const ConvolutionShape& shape, const Choose& choose) {
  const int64_t channels = channels_at_once(shape, c.output().type);
  return prepared(SliceChoices<Choice>(shape.out_channels, channels, [&](int64_t some) {
    ConvolutionShape piece = with_channels(shape, some);
    const int64_t rows = rows_at_once(piece, c.inputs[0].bits);
    return PieceChoices<Choice>(shape.batch, rows, [&](int64_t batch) {
      piece.batch = batch;
      return choose(piece);
    });
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
                    bool raise, int64_t channels, int64_t* wide) {
  if (shift != 0 || !raise) {
    for (int64_t o = 0; o < channels; ++o) wide[o] = rescale_rne(sums[o], shift - above[o]);
  } else if constexpr (sizeof(Sum) == sizeof(int32_t)) {
    c.kernel.table->wide->shift_sums({sums, above, wide}, 0, channels);
  } else {
    // Sums are below 2^48.
    static_assert(kMostChannelSpread <= 61 - 48);
    for (int64_t o = 0; o < channels; ++o) wide[o] = sums[o] * (int64_t{1} << above[o]);
  }
}

// A piece of rows and channels whose sums are there, [rows, channels]. Exponents of all channels lie
// `above` the exponent of the weights.
template <typename Sum>
struct PieceSums {
  int64_t first_row, rows, first_channel, channels;
  int weights_exponent;
  const int32_t* above;
  const Sum* sums;
  const Sum* of_row(int64_t row) const { return sums + (row - first_row) * channels; }
};

// Whether all channels' sums shift to the left. Channels far below the others shift to the right.
template <typename Sum>
bool all_raise(const PieceSums<Sum>& piece) {
  const int32_t* const above = piece.above + piece.first_channel;
  return std::all_of(above, above + piece.channels, [](int32_t n) { return n >= 0; });
}

// Requantises rows, each to its own maximum. A piece has all channels.
template <typename Sum>
void narrow_sums(const OpContext& c, const PieceSums<Sum>& piece) {
  const Tensor *const bias = bias_of(c), &input = c.inputs[0];
  const int64_t channels = piece.channels;
  const int least = least_for_bias(bias, kWideSumBits);
  const bool raise = all_raise(piece);
  const int64_t end = piece.first_row + piece.rows;
  narrow_own_rows(c, piece.first_row, end, [&](int64_t row, int64_t* wide) {
    const int of_sums = input.row_exponent(row) + piece.weights_exponent;
    const int exponent = std::max(of_sums, least);
    align_channels(c, piece.of_row(row), exponent - of_sums, piece.above, raise, channels, wide);
    if (bias == nullptr) return exponent;
    c.kernel.table->wide->rescale({value_of(*bias), exponent - *bias->exponent, true, wide}, 0,
                                  channels);
    return exponent;
  });
}

// Sums that are aligned before they are left.
constexpr int64_t kLeftAtOnce = 1024;

// Leaves a piece in int32.
template <typename Sum>
void leave_sums(const OpContext& c, const PieceSums<Sum>& piece) {
  const Tensor *const bias = bias_of(c), &input = c.inputs[0], &weights = c.parameters[0].mantissa;
  const int64_t all = c.output().shape.last(), channels = piece.channels;
  const int64_t depth = input.shape.last();
  const int sum_bits = input.bits + weights.bits - 2 + bit_length(static_cast<uint64_t>(depth));
  const int sum_exponent = weights.largest_exponent() + sum_bits - kLogitBits;
  const int least = std::max(least_for_bias(bias, kLogitBits), kExponentMin);
  const int32_t* const above = piece.above + piece.first_channel;
  const bool raise = all_raise(piece);
  const auto leave_row = [&](int64_t row, int64_t begin, int64_t end) {
    const int exponent = c.output().row_exponents[row];
    auto* const to = c.output().as<int32_t>() + row * all + piece.first_channel;
    const Sum* const from = piece.of_row(row);
    const int shift = exponent - input.row_exponent(row) - piece.weights_exponent;
    std::array<int64_t, kLeftAtOnce> wide;
    for (int64_t o = begin; o < end; o += kLeftAtOnce) {
      const int64_t count = std::min(kLeftAtOnce, end - o);
      align_channels(c, from + o, raise ? 0 : shift, above + o, raise, count, wide.data());
      c.kernel.table->wide->narrow({wide.data(), raise ? shift : 0, {to + o, 32}}, 0, count);
    }
    if (bias == nullptr) return;
    const Mantissas of_bias(*bias);
    for (int64_t o = begin; o < end; ++o) {
      const int64_t wide = of_bias[piece.first_channel + o];
      to[o] += static_cast<int32_t>(rescale_rne(wide, exponent - *bias->exponent));
    }
  };
  const int64_t end_row = piece.first_row + piece.rows;
  for (int64_t row = piece.first_row; row < end_row; ++row) {
    const int exponent = std::max(input.row_exponent(row) + sum_exponent, least);
    c.output().row_exponents[row] = static_cast<int16_t>(exponent);
  }
  kernels::parallel_ranges(*c.kernel.pool, channels, row_grain(piece.rows),
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t row = piece.first_row; row < end_row; ++row) {
                               leave_row(row, begin, end);
                             }
                           });
}

// Computes pieces of rows and channels: compute(shape of the piece, its first row, its weights,
// choice, sums).
template <typename Sum, typename Choice, typename Compute>
void write_pieces_of_rows(const OpContext& c, const ConvolutionShape& shape,
                          const Compute& compute) {
  const auto& slices = choices_of<SliceChoices<Choice>>(c);
  const Tensor& weights = c.parameters[0].mantissa;
  const RowWorkspace work(c.memory.workspace, shape.out_channels);
  auto* const sums = reinterpret_cast<Sum*>(work.sums);
  const int weights_exponent = least_channel_exponent(weights, work.above);
  const auto write = c.output().type == DataType::kInt32 ? leave_sums<Sum> : narrow_sums<Sum>;
  for (int64_t channel = 0; channel < shape.out_channels; channel += slices.piece) {
    ConvolutionShape piece =
        with_channels(shape, std::min(slices.piece, shape.out_channels - channel));
    const auto& choices = slices.of(piece.out_channels);
    const kernels::MantissaSpan of_piece = gradient_from(weights, channel * shape.in_channels);
    for (int64_t row = 0; row < shape.batch; row += choices.piece) {
      piece.batch = std::min(choices.piece, shape.batch - row);
      compute(piece, row, of_piece, choices.of(piece.batch), sums);
      write(c, {row, piece.batch, channel, piece.out_channels, weights_exponent, work.above, sums});
    }
  }
  set_largest_row_exponent(c);
}

// The products of few rows, all at once.
template <typename Sum>
void write_few_rows(const OpContext& c, const ConvolutionShape& shape) {
  const Tensor &input = c.inputs[0], &weights = c.parameters[0].mantissa;
  const RowWorkspace work(c.memory.workspace, shape.out_channels);
  auto* const sums = reinterpret_cast<Sum*>(work.sums);
  const kernels::RowProducts products = {.input = gradient_from(input, 0),
                                         .weights = weights.as<int8_t>(),
                                         .rows = shape.batch,
                                         .channels = shape.out_channels,
                                         .depth = shape.in_channels,
                                         .sums = sums};
  // Whole vectors of sums.
  constexpr int64_t kUnit = 16;
  const int64_t grain =
      round_up<int64_t>(divide_up(kernels::kBytesPerThread, shape.in_channels), kUnit);
  kernels::parallel_ranges(*c.kernel.pool, shape.out_channels, grain,
                           [&](int64_t begin, int64_t end, int64_t) {
                             c.kernel.table->row_products->multiply(products, begin, end);
                           });
  const int weights_exponent = least_channel_exponent(weights, work.above);
  const auto write = c.output().type == DataType::kInt32 ? leave_sums<Sum> : narrow_sums<Sum>;
  write(c, {0, shape.batch, 0, shape.out_channels, weights_exponent, work.above, sums});
  set_largest_row_exponent(c);
}

RowMemory row_forward_memory(const OpShapes& s, const PlanningContext& planning) {
  const ConvolutionShape whole = convolution_shape(s);
  const int bits = s.input_bits(0), weight_bits = s.parameter_grids[0].bits;
  const int64_t sum_bytes = bits > kByteBits ? sizeof(int64_t) : sizeof(int32_t);
  if (has_few_rows(whole, weight_bits)) {
    return {channel_bytes(whole.out_channels) + whole.output_count() * sum_bytes, 0};
  }
  const auto scratch_bytes = [&](const ConvolutionShape& piece) {
    const kernels::KernelTable& table = *planning.kernels;
    return bits > kByteBits ? kernels::wide_forward_scratch_bytes(table, piece, bits, weight_bits,
                                                                  planning.threads)
                            : kernels::convolution_scratch_bytes(
                                  table.convolution, {.shape = piece}, planning.threads);
  };
  const auto sums_bytes = [&](const ConvolutionShape& shape) {
    return rows_at_once(shape, bits) * shape.out_channels * sum_bytes;
  };
  const int64_t channels = channels_at_once(whole, s.output_type);
  const auto most = [&](const auto& bytes) {
    return kernels::most_of_pieces(whole.out_channels, channels, [&](int64_t some) {
      return static_cast<int64_t>(bytes(with_channels(whole, some)));
    });
  };
  return {channel_bytes(whole.out_channels) + most(sums_bytes),
          most([&](const ConvolutionShape& shape) {
            return chunk_scratch_bytes(shape, rows_at_once(shape, bits), scratch_bytes);
          })};
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
  if (has_few_rows(shape, weights.bits)) return {};
  if (input.bits > kByteBits) {
    return choose_pieces<kernels::WideChoice>(c, shape, [&](const ConvolutionShape& piece) {
      return kernels::choose_wide_forward(*c.kernel.table, piece, input.bits, weights.bits);
    });
  }
  return choose_pieces<ConvolutionChoice>(
      c, shape, [&](const ConvolutionShape& piece) { return choose(c, {.shape = piece}); });
}

void row_forward(const OpContext& c) {
  const Tensor& input = c.inputs[0];
  const ConvolutionShape shape = convolution_shape(c, input.shape, c.output().shape);
  if (has_few_rows(shape, c.parameters[0].mantissa.bits)) {
    return input.bits > kByteBits ? write_few_rows<int64_t>(c, shape)
                                  : write_few_rows<int32_t>(c, shape);
  }
  if (input.bits > kByteBits) {
    const auto compute = [&](const ConvolutionShape& piece, int64_t first,
                             const kernels::MantissaSpan& weights,
                             const kernels::WideChoice& choice, int64_t* sums) {
      const kernels::MantissaSpan rows = gradient_from(input, first * shape.in_channels);
      kernels::wide_forward(choice, *c.kernel.table,
                            {.shape = piece, .input = rows, .weights = weights, .sums = sums},
                            c.kernel);
    };
    return write_pieces_of_rows<int64_t, kernels::WideChoice>(c, shape, compute);
  }
  const auto compute = [&](const ConvolutionShape& piece, int64_t first,
                           const kernels::MantissaSpan& weights, const ConvolutionChoice& choice,
                           int32_t* sums) {
    choice.forward({.shape = piece,
                    .input = input.as<int8_t>() + first * shape.in_channels,
                    .weights = weights.as<int8_t>(),
                    .sums = sums},
                   c.kernel);
  };
  write_pieces_of_rows<int32_t, ConvolutionChoice>(c, shape, compute);
}

}  // namespace mantissa::ops
