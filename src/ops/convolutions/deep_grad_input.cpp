#include "ops/convolutions/deep_grad_input.h"

#include <algorithm>
#include <array>

#include "kernels/common/parallel_ranges.h"
#include "numerics/rounding.h"
#include "ops/convolutions/convolution_choices.h"
#include "ops/convolutions/sum_exponents.h"
#include "ops/convolutions/weight_blocks.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

using kernels::ConvolutionPass;
using kernels::ConvolutionShape;

// Outputs of a piece. Their weights and gradients stay in a core's cache.
constexpr int64_t kDeepPiece = 2048;
// Outputs whose gradients are transposed together: those of a cache line.
constexpr int64_t kTransposed = 32;

bool is_deep(const Shape& weights, int weight_bits) {
  return weights.rank == 2 && weight_bits <= 8 && weights[0] > kernels::kMaximumForwardDepth;
}

// sum[row, c] = the sum over o of gradient[row, o] * weights[o, c] has the form of a gradient of
// weights: the piece's outputs are its pixels, the rows its output channels.
ConvolutionShape piece_shape(int64_t outputs, int64_t channels, int64_t rows) {
  return {.batch = outputs, .in_channels = channels, .out_channels = rows};
}

// The workspace: a piece's gradient [outputs, rows], its weights if they are in blocks, the sums.
struct DeepWorkspace {
  int64_t gradient, weights, sums;

  DeepWorkspace(const Shape& of_weights, int64_t rows, int gradient_bits, bool in_blocks)
      : gradient(round_up<int64_t>(kDeepPiece * rows * kernels::gradient_bytes(gradient_bits), 64)),
        weights(in_blocks ? round_up<int64_t>(kDeepPiece * of_weights[1], 64) : 0),
        sums(rows * of_weights[1] * int64_t{sizeof(int64_t)}) {}
  int64_t bytes() const { return gradient + weights + sums; }
};

int64_t rows_of(const OpContext& c) {
  return c.grad_output().count() / c.grad_output().shape.last();
}

// to[o, row] = the gradient of output first + o, in units in which all channels of the weights have
// the largest exponent (sum_exponents.h, align_gradient).
template <typename T>
void transpose_gradient(const OpContext& c, int64_t first, int64_t outputs, T* to) {
  const Tensor& weights = c.parameters[0].mantissa;
  const int64_t all = c.grad_output().shape.last(), rows = rows_of(c);
  const int largest = weights.largest_exponent();
  const T* const gradient = c.grad_output().as<T>() + first;
  const auto transpose = [&](int64_t begin, int64_t end) {
    std::array<int, kTransposed> shifts;
    for (int64_t o = begin; o < end; ++o) {
      shifts[o - begin] = std::min(largest - weights.block_exponent(first + o), kMostGradientShift);
    }
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t o = begin; o < end; ++o) {
        const int32_t n = gradient[row * all + o];
        to[o * rows + row] = static_cast<T>(shift_right_rne(n, shifts[o - begin]));
      }
    }
  };
  kernels::parallel_ranges(*c.kernel.pool, outputs, kTransposed,
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t o = begin; o < end; o += kTransposed) {
                               transpose(o, std::min(end, o + kTransposed));
                             }
                           });
}

// The exact sums over all outputs.
const int64_t* sum_pieces(const OpContext& c) {
  const Tensor& weights = c.parameters[0].mantissa;
  const auto& choices = choices_of<PieceChoices<ConvolutionChoice>>(c);
  const int64_t outputs = weights.shape[0], channels = weights.shape[1];
  const int bits = c.grad_output().bits;
  const DeepWorkspace work(weights.shape, rows_of(c), bits, has_blocks(c));
  std::byte* const gradient = c.memory.workspace;
  auto* const expanded = reinterpret_cast<int8_t*>(gradient + work.gradient);
  auto* const sums = reinterpret_cast<int64_t*>(gradient + work.gradient + work.weights);
  for (int64_t first = 0; first < outputs; first += choices.piece) {
    const int64_t count = std::min(choices.piece, outputs - first);
    kernels::with_value_type(bits, [&](auto type) {
      transpose_gradient(c, first, count, reinterpret_cast<decltype(type)*>(gradient));
    });
    if (has_blocks(c)) expand_rows(c, first, count, expanded);
    const ConvolutionChoice& choice = choices.of(count);
    choice.grad_weights(
        {.shape = choice.work.shape,
         .input = has_blocks(c) ? expanded : weights.as<int8_t>() + first * channels,
         .grad_output = {gradient, bits},
         .totals = {sums, 64},
         .adds = first > 0},
        c.kernel);
  }
  return sums;
}

}  // namespace

bool has_deep_grad_input(const OpShapes& s) {
  return is_deep(s.parameters[0], s.parameter_grids[0].bits);
}

bool has_deep_grad_input(const OpContext& c) {
  return is_deep(c.parameters[0].mantissa.shape, c.parameters[0].mantissa.bits);
}

RowMemory deep_grad_input_memory(const OpShapes& s, const PlanningContext& planning) {
  const Shape& weights = s.parameters[0];
  const int64_t rows = s.output.count() / s.output.last();
  return {.workspace_bytes = DeepWorkspace(weights, rows, s.gradient.bits, has_blocks(s)).bytes(),
          .scratch_bytes = kernels::most_of_pieces(weights[0], kDeepPiece, [&](int64_t outputs) {
            return static_cast<int64_t>(kernels::convolution_scratch_bytes(
                planning.kernels->convolution,
                {ConvolutionPass::kGradWeights, piece_shape(outputs, weights[1], rows),
                 s.gradient.bits},
                planning.threads));
          })};
}

Prepared prepare_deep_grad_input(const OpContext& c) {
  const Shape& weights = c.parameters[0].mantissa.shape;
  return prepared(PieceChoices<ConvolutionChoice>(weights[0], kDeepPiece, [&](int64_t outputs) {
    return choose(c, {ConvolutionPass::kGradWeights, piece_shape(outputs, weights[1], rows_of(c)),
                      c.grad_output().bits});
  }));
}

kernels::WideStatistics write_deep_grad_input(const OpContext& c, int shift,
                                              const kernels::PassCounts& counts) {
  return narrow_wide(c, sum_pieces(c), c.grad_inputs[0], true, shift, counts);
}

}  // namespace mantissa::ops
