#include "ops/linear_rows.h"

#include <algorithm>

#include "ops/convolution_choices.h"
#include "ops/convolution_sums.h"
#include "ops/rows.h"

namespace mantissa::ops {
namespace {

using kernels::ConvolutionShape;

// The least exponent of a channel, and how far the others lie above it.
int least_exponent(const Tensor& weights, int32_t* above) {
  const int least = std::max(*std::min_element(weights.exponent, weights.exponent + weights.blocks),
                             int16_t(weights.largest_exponent() - kMostChannelSpread));
  for (int64_t o = 0; o < weights.shape[0]; ++o) above[o] = weights.block_exponent(o) - least;
  return least;
}

// The workspace: shifts of channels, then sums of a chunk of rows.
struct RowWorkspace {
  int32_t *above, *sums;
  RowWorkspace(std::byte* base, int64_t channels)
      : above(reinterpret_cast<int32_t*>(base)),
        sums(reinterpret_cast<int32_t*>(base + channel_bytes(channels))) {}
  static int64_t bytes(int64_t channels, int64_t sums) {
    return channel_bytes(channels) + sums * int64_t{sizeof(int32_t)};
  }
};

}  // namespace

bool is_by_rows(const OpShapes& s) {
  return !s.input_grids.empty() && s.input_grids[0].blocks == Blocks::kRow;
}

bool is_by_rows(const OpContext& c) { return c.inputs[0].row_exponents != nullptr; }

PhaseMemory row_forward_memory(const OpShapes& s, const PlanningContext& planning) {
  const ConvolutionShape shape = convolution_shape(s);
  const int64_t rows = kernels::images_per_chunk(shape);
  const auto scratch_bytes = [&](const ConvolutionShape& part) {
    return static_cast<int64_t>(kernels::convolution_scratch_bytes(
        planning.kernels->convolution, {.shape = part}, planning.threads));
  };
  return {RowWorkspace::bytes(shape.out_channels, rows * shape.out_channels),
          chunk_scratch_bytes(shape, rows, scratch_bytes)};
}

Prepared prepare_row_forward(const OpContext& c) {
  ConvolutionShape shape = convolution_shape(c, c.inputs[0].shape, c.output.shape);
  const auto choose_for = [&](int64_t rows) {
    ConvolutionShape chunk = shape;
    chunk.batch = rows;
    return choose(c, {.shape = chunk});
  };
  return prepared(
      PieceChoices<ConvolutionChoice>(shape.batch, kernels::images_per_chunk(shape), choose_for));
}

void row_forward(const OpContext& c) {
  const auto& choices = choices_of<PieceChoices<ConvolutionChoice>>(c);
  const Tensor &input = c.inputs[0], &weights = c.parameters[0].mantissa;
  const ConvolutionShape shape = convolution_shape(c, input.shape, c.output.shape);
  const int64_t channels = shape.out_channels;
  const RowWorkspace work(c.workspace, channels);
  const int weights_exponent = least_exponent(weights, work.above);
  const Tensor* const bias = c.parameters.size() > 1 ? &c.parameters[1].mantissa : nullptr;
  for (int64_t first = 0; first < shape.batch; first += choices.piece) {
    kernels::ConvolutionForward chunk{.shape = shape,
                                      .input = input.as<int8_t>() + first * shape.in_channels,
                                      .weights = weights.as<int8_t>(),
                                      .sums = work.sums};
    chunk.shape.batch = std::min(choices.piece, shape.batch - first);
    choices.of(chunk.shape.batch).forward(chunk, c.kernel);
    narrow_own_rows(c, first, first + chunk.shape.batch, [&](int64_t row, int64_t* wide) {
      const int32_t* sums = work.sums + (row - first) * channels;
      const int exponent = input.row_exponent(row) + weights_exponent;
      for (int64_t o = 0; o < channels; ++o) wide[o] = rescale_rne(sums[o], -work.above[o]);
      if (bias == nullptr) return exponent;
      const Mantissas of_bias(*bias);
      const int shift = exponent - *bias->exponent;
      for (int64_t o = 0; o < channels; ++o) wide[o] += rescale_rne(of_bias[o], shift);
      return exponent;
    });
  }
  set_largest_row_exponent(c);
}

}  // namespace mantissa::ops
