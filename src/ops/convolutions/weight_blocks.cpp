#include "ops/convolutions/weight_blocks.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "kernels/common/parallel_ranges.h"
#include "kernels/convolution/pieces.h"
#include "kernels/kernel_table.h"
#include "ops/attributes.h"
#include "ops/convolutions/convolution_choices.h"
#include "ops/convolutions/sum_exponents.h"
#include "ops/narrowing.h"

namespace mantissa::ops {
namespace {

using kernels::ConvolutionPass;
using kernels::ConvolutionShape;

// Weights of layers that are expanded in slices, and of one slice.
constexpr int64_t kManyWeights = int64_t{1} << 22;
constexpr int64_t kForwardSlice = int64_t{1} << 19, kGradInputSlice = int64_t{1} << 21;
constexpr int64_t kUnit = 64;  // of the channels of a slice, at least

int64_t aligned(int64_t bytes) { return round_up<int64_t>(bytes, 64); }

int64_t slice(int64_t weights, int64_t channels, int64_t slice_weights, int64_t unit) {
  if (weights < kManyWeights) return channels;
  const int64_t row = weights / channels;
  return std::min(channels, round_up<int64_t>(std::max<int64_t>(1, slice_weights / row), unit));
}

// Output channels of a slice of the forward pass: results that are narrowed need all.
int64_t forward_slice(const Shape& weights, DataType output) {
  return output == DataType::kInt32 ? slice(weights.count(), weights[0], kForwardSlice, kUnit)
                                    : weights[0];
}
// Input channels of a slice of grad_input: whole blocks.
int64_t grad_input_slice(const Shape& weights, BlockKind kind) {
  return slice(weights.count(), weights[1], kGradInputSlice, std::max(kUnit, block_weights(kind)));
}
BlockKind kind_of(const OpShapes& s) { return s.attributes->as<LayerAttributes>().weight_blocks; }
BlockKind kind_of(const OpContext& c) { return c.attributes<LayerAttributes>().weight_blocks; }

// Channels [first, first + channels) of some rows, whole blocks, expanded.
void expand(const OpContext& c, int64_t first_row, int64_t rows, int64_t first,
            int64_t channels, int8_t* to) {
  const Tensor& weights = c.parameters[0].mantissa;
  const BlockKind kind = kind_of(c);
  const int64_t row_bytes = bytes_in_blocks(kind, weights.shape[1]);
  const kernels::ExpandBlocks args{
      .blocks = weights.as<uint8_t>() + first_row * row_bytes +
                bytes_in_blocks(kind, first),
      .row_bytes = row_bytes,
      .kind = ref_kind(kind),
      .count = channels / block_weights(kind),
      .exponents = weights.exponent + first_row,
      .out = to};
  const int64_t grain = std::max<int64_t>(1, kernels::kElementsPerThread / channels);
  kernels::parallel_ranges(*c.kernel.pool, rows, grain,
                           [&](int64_t begin, int64_t end, int64_t) {
                             c.kernel.table->blocks->expand(args, begin, end);
                           });
}

// The workspace of a slice of rows: weights, exponents, sums; then the layer's own.
struct SliceWorkspace {
  int8_t* weights;
  int16_t* exponents;
  int32_t* sums;
  std::byte* rest;

  SliceWorkspace(std::byte* base, int64_t channels, int64_t row, int64_t outputs)
      : weights(reinterpret_cast<int8_t*>(base)),
        exponents(reinterpret_cast<int16_t*>(base + aligned(channels * row))),
        sums(reinterpret_cast<int32_t*>(base + before_sums(channels, row))),
        rest(base + bytes(channels, row, outputs)) {}

  static int64_t before_sums(int64_t channels, int64_t row) {
    return aligned(channels * row) + aligned((channels + 1) * int64_t{sizeof(int16_t)});
  }
  static int64_t bytes(int64_t channels, int64_t row, int64_t outputs) {
    return before_sums(channels, row) + aligned(outputs * channels * int64_t{sizeof(int32_t)});
  }
};

// The context of weights of 8 bits, of all rows or of a slice.
class ExpandedContext {
 public:
  ExpandedContext(const OpContext& c, int8_t* weights, std::byte* workspace) : context(c) {
    std::copy(c.parameters.begin(), c.parameters.end(), parameters_.begin());
    context.parameters = std::span(parameters_).first(c.parameters.size());
    context.memory.workspace = workspace;
    Tensor& mantissas = parameters_[0].mantissa;
    mantissas.data = weights;
    mantissas.type = DataType::kInt8;
  }
  ExpandedContext(const OpContext& c, int64_t first, int64_t channels, const SliceWorkspace& work)
      : ExpandedContext(c, work.weights, work.rest) {
    Tensor& mantissas = parameters_[0].mantissa;
    mantissas.shape.dims[0] = channels;
    // The last exponent is the largest of all rows: all slices leave sums at the same one.
    work.exponents[channels] = static_cast<int16_t>(mantissas.largest_exponent());
    std::copy_n(mantissas.exponent + first, channels, work.exponents);
    mantissas.exponent = work.exponents;
    mantissas.blocks = channels + 1;
    if (c.parameters.size() > 1) {
      Tensor& bias = parameters_[1].mantissa;
      bias.data = bias.as<std::byte>() + first * element_bytes(bias.type);
      bias.shape = Shape{channels};
    }
    output_ = c.output();
    output_.data = work.sums;
    output_.shape.dims[static_cast<size_t>(output_.shape.rank - 1)] = channels;
    context.outputs = std::span(&output_, 1);
  }
  ExpandedContext(const ExpandedContext&) = delete;
  ExpandedContext& operator=(const ExpandedContext&) = delete;

  OpContext context;

 private:
  std::array<ParameterView, 2> parameters_;
  Tensor output_;
};

// What the layer prepared for slices, and for the last one if it is narrower.
using SlicePrepared = PieceChoices<Prepared>;

int64_t outputs_per_channel(const Shape& output) { return output.count() / output.last(); }

RowMemory forward_memory(const OpShapes& s, const PlanningContext& planning,
                         OpMemory (*plan)(const OpShapes&, const PlanningContext&)) {
  const Shape& weights = s.parameters[0];
  const int64_t channels = forward_slice(weights, s.output_type), row = weights[1];
  if (channels == weights[0]) {
    RowMemory memory = plan(s, planning).forward;
    memory.workspace_bytes += aligned(weights.count());
    return memory;
  }
  RowMemory most;
  for (const int64_t rows : {channels, weights[0] % channels}) {
    if (rows == 0) continue;
    const std::array<Shape, 2> parameters = {Shape{rows, row}, Shape{rows}};
    OpShapes part = s;
    part.parameters = std::span(parameters).first(s.parameters.size());
    part.output.dims[static_cast<size_t>(part.output.rank - 1)] = rows;
    const RowMemory own = plan(part, planning).forward;
    most.workspace_bytes = std::max(most.workspace_bytes, own.workspace_bytes);
    most.scratch_bytes = std::max(most.scratch_bytes, own.scratch_bytes);
  }
  most.workspace_bytes += SliceWorkspace::bytes(channels, row, outputs_per_channel(s.output));
  return most;
}

// The workspace of grad_input: a slice's weights, its result if there are several, and then what
// aligning the gradient needs.
struct GradInputWorkspace {
  int64_t weights_bytes, result_bytes;

  GradInputWorkspace(const Shape& weights, BlockKind kind, int64_t rows, int bits) {
    const int64_t channels = grad_input_slice(weights, kind);
    weights_bytes = aligned(weights[0] * channels);
    result_bytes = channels == weights[1]
                       ? 0
                       : aligned(rows * channels *
                                 static_cast<int64_t>(kernels::gradient_bytes(bits)));
  }
  int64_t bytes() const { return weights_bytes + result_bytes; }
};

ConvolutionShape with_inputs(ConvolutionShape shape, int64_t channels) {
  shape.in_channels = channels;
  return shape;
}

RowMemory grad_input_memory(const OpShapes& s, const PlanningContext& planning) {
  const ConvolutionShape shape = convolution_shape(s);
  const int64_t rows = shape.batch;
  // Gradients may be written with 16 bits, and rounded to fewer.
  const int bits = std::max(s.gradient.bits, 16);
  return {.workspace_bytes =
              GradInputWorkspace(s.parameters[0], kind_of(s), rows, bits).bytes() +
              align_gradient_bytes(rows, shape.out_channels, s.gradient.bits),
          .scratch_bytes = kernels::most_of_pieces(
              shape.in_channels, grad_input_slice(s.parameters[0], kind_of(s)),
              [&](int64_t channels) {
                return static_cast<int64_t>(kernels::convolution_scratch_bytes(
                    planning.kernels->convolution,
                    {ConvolutionPass::kGradInput, with_inputs(shape, channels), s.gradient.bits},
                    planning.threads));
              })};
}

}  // namespace

bool has_blocks(const OpShapes& s) { return kind_of(s) != BlockKind::kNone; }
bool has_blocks(const OpContext& c) { return kind_of(c) != BlockKind::kNone; }

void expand_rows(const OpContext& c, int64_t first, int64_t rows, int8_t* to) {
  expand(c, first, rows, 0, c.parameters[0].mantissa.shape[1], to);
}

OpMemory memory_of_blocks(const OpShapes& s, const PlanningContext& planning,
                          OpMemory (*plan)(const OpShapes&, const PlanningContext&)) {
  return {.forward = forward_memory(s, planning, plan),
          .grad_input = grad_input_memory(s, planning)};
}

Prepared prepare_forward_of_blocks(const OpContext& c, Prepared (*prepare)(const OpContext&)) {
  const Shape& weights = c.parameters[0].mantissa.shape;
  const int64_t channels = forward_slice(weights, c.output().type);
  if (channels == weights[0]) return prepare(c);
  const SliceWorkspace work(c.memory.workspace, channels, weights[1],
                            outputs_per_channel(c.output().shape));
  return prepared(SlicePrepared(weights[0], channels, [&](int64_t rows) {
    return prepare(ExpandedContext(c, 0, rows, work).context);
  }));
}

void forward_of_blocks(const OpContext& c, void (*run)(const OpContext&)) {
  const Shape& weights = c.parameters[0].mantissa.shape;
  const int64_t channels = forward_slice(weights, c.output().type), row = weights[1];
  if (channels == weights[0]) {
    auto* const mantissas = reinterpret_cast<int8_t*>(c.memory.workspace);
    expand(c, 0, channels, 0, row, mantissas);
    return run(
        ExpandedContext(c, mantissas, c.memory.workspace + aligned(weights.count())).context);
  }
  const int64_t outputs = outputs_per_channel(c.output().shape);
  const SliceWorkspace work(c.memory.workspace, channels, row, outputs);
  for (int64_t first = 0; first < weights[0]; first += channels) {
    const int64_t rows = std::min(channels, weights[0] - first);
    expand(c, first, rows, 0, row, work.weights);
    ExpandedContext slice(c, first, rows, work);
    slice.context.kernel.prepared = choices_of<SlicePrepared>(c).of(rows).get();
    run(slice.context);
    constexpr int64_t kBytes = sizeof(int32_t);
    kernels::copy_rows(*c.kernel.pool, reinterpret_cast<const std::byte*>(work.sums),
                       rows * kBytes, c.output().as<std::byte>() + first * kBytes,
                       weights[0] * kBytes, rows * kBytes, outputs);
  }
}

Prepared prepare_grad_input_of_blocks(const OpContext& c) {
  const ConvolutionShape shape =
      convolution_shape(c, c.grad_inputs[0].shape, c.grad_output().shape);
  return prepared(PieceChoices<ConvolutionChoice>(
      shape.in_channels, grad_input_slice(c.parameters[0].mantissa.shape, kind_of(c)),
      [&](int64_t channels) {
        return choose(c, {ConvolutionPass::kGradInput, with_inputs(shape, channels),
                          c.grad_output().bits});
      }));
}

kernels::WideStatistics write_grad_input_of_blocks(const OpContext& c, int shift) {
  const Tensor &grad_input = c.grad_inputs[0], &weights = c.parameters[0].mantissa;
  const auto& choices = choices_of<PieceChoices<ConvolutionChoice>>(c);
  const int64_t in = weights.shape[1], rows = grad_input.count() / in;
  const int64_t element = element_bytes(grad_input.type);
  const GradInputWorkspace work(weights.shape, kind_of(c), rows, std::max(grad_input.bits, 16));
  auto* const mantissas = reinterpret_cast<int8_t*>(c.memory.workspace);
  std::byte* const result = c.memory.workspace + work.weights_bytes;
  OpContext own = c;
  own.memory.workspace += work.bytes();
  const kernels::ConstMantissaSpan gradient = align_gradient(own, weights);
  kernels::WideStatistics found;
  for (int64_t first = 0; first < in; first += choices.piece) {
    const int64_t channels = std::min(choices.piece, in - first);
    expand(c, 0, weights.shape[0], first, channels, mantissas);
    const ConvolutionChoice& choice = choices.of(channels);
    kernels::MantissaSpan to = gradient_of(grad_input);
    if (channels < in) to.data = result;
    found += choice.grad_input({choice.work.shape, gradient, mantissas, shift, to}, c.kernel);
    if (channels == in) continue;
    kernels::copy_rows(*c.kernel.pool, result, channels * element,
                       grad_input.as<std::byte>() + first * element, in * element,
                       channels * element, rows);
  }
  return found;
}

}  // namespace mantissa::ops
