// Convolution and linear in fp32.
#include "kernels/fp32/convolution.h"

#include <algorithm>
#include <cmath>

#include "kernels/fp32/onednn.h"
#include "ops/attributes.h"
#include "ops/convolutions/convolution_shape.h"
#include "ops/convolutions/weight_attributes.h"
#include "ops/fp32.h"
#include "ops/fp32/block_floats.h"

namespace mantissa::ops::fp32 {
namespace {

using kernels::ConvolutionPass;
using kernels::fp32::Convolution;

bool has_bias(const OpShapes& s) { return s.parameters.size() > 1; }

// The grid of weights that have one, as a layer with few bits of weights and float values: the
// layer computes with the nearest points of it. The master copy is not clipped.
class FloatGrid {
 public:
  explicit FloatGrid(const LayerAttributes& attributes)
      : grid_(weight_grid(attributes)),
        is_tanh_(attributes.weight_tanh),
        unit_(std::ldexp(1.0f, attributes.weight_exponent)) {
    if (grid_.bits == 0) return;
    low_ = static_cast<float>(grid_.low());
    high_ = static_cast<float>(grid_.high());
    half_ = std::ldexp(1.0f, grid_.bits - 1);
  }

  bool is_there() const { return grid_.bits > 0; }
  float nearest(float weight) const {
    if (grid_.is_sign()) return weight >= 0 ? unit_ : -unit_;
    return unit_ * std::clamp(std::nearbyint(weight / unit_), low_, high_);
  }
  // The factor of the gradient. Where it passes: 1, or for weights through tanh the squared slope
  // (bend_gradient.cpp), which continues for half a step beyond the ends. Elsewhere 0.
  float slope(float weight) const {
    const float place = weight / unit_;
    if (grid_.stops) return std::abs(place) <= half_ ? 1 : 0;
    if (!is_tanh_) return place >= low_ && place <= high_ ? 1 : 0;
    const float step = grid_.is_sign() ? 2 : 1;
    if (place < low_ - step / 2 || place > high_ + step / 2) return 0;
    constexpr float kTanhOne = 0.761594156f;
    const float tangent = kTanhOne * (2 * place - low_ - high_) / (high_ - low_);
    const float s = 1 - tangent * tangent;
    return s * s;
  }

 private:
  WeightGrid grid_;
  bool is_tanh_;
  float unit_;
  float low_ = 0, high_ = 0, half_ = 0;
};

// Whether the layer computes with other numbers than the parameter's own.
bool is_copied(const LayerAttributes& attributes) {
  return attributes.weight_bits > 0 || attributes.weight_blocks != BlockKind::kNone;
}

int64_t copy_bytes(const OpShapes& s) {
  return is_copied(s.attributes->as<LayerAttributes>())
             ? s.parameters[0].count() * int64_t{sizeof(float)}
             : 0;
}

// The weights that the layer computes with; in the workspace if they are on a grid or in blocks.
const float* weights_of(const OpContext& c) {
  const Tensor& weights = c.parameters[0].mantissa;
  const auto& attributes = c.attributes<LayerAttributes>();
  if (!is_copied(attributes)) return weights.as<float>();
  auto* const nearest = reinterpret_cast<float*>(c.memory.workspace);
  if (attributes.weight_blocks != BlockKind::kNone) {
    const int64_t own = block_weights(attributes.weight_blocks);
    for_ranges(c, weights.count() / own, [&](int64_t begin, int64_t end) {
      write_block_floats(weights, attributes.weight_blocks, begin, end, nearest + begin * own);
    });
    return nearest;
  }
  const FloatGrid grid(attributes);
  for_each(c, weights.count(),
           [&](int64_t i) { nearest[i] = grid.nearest(weights.as<float>()[i]); });
  return nearest;
}

// Gradients of weights and bias of one micro-batch, which are then added to the step's.
int64_t gradient_bytes(const OpShapes& s) {
  int64_t count = s.parameters[0].count();
  if (has_bias(s)) count += s.parameters[1].count();
  return count * int64_t{sizeof(float)};
}

// Whether the pass is a product of a few rows with the weights, such as a new token's. oneDNN would
// bring all weights into another order in each run, for no more than these rows.
bool has_few_rows(const kernels::ConvolutionShape& s) {
  const bool is_linear = s.kernel_height * s.kernel_width == 1 && s.groups == 1 &&
                         s.stride_height * s.stride_width == 1 && s.padding_height == 0 &&
                         s.padding_width == 0;
  return is_linear && s.batch * s.in_height * s.in_width <= kernels::kMostFewRows;
}
bool has_few_rows(const OpContext& c) {
  return has_few_rows(convolution_shape(c, c.inputs[0].shape, c.output().shape));
}

Status check(const OpShapes& s) {
  MANTISSA_RETURN_IF_ERROR(kernels::fp32::load_onednn());
  for (const ConvolutionPass pass :
       {ConvolutionPass::kForward, ConvolutionPass::kGradInput, ConvolutionPass::kGradWeights}) {
    if (kernels::fp32::convolution_scratch_bytes(convolution_shape(s), pass, false, 1) < 0) {
      return failed("oneDNN has no fp32 kernel for this shape");
    }
  }
  return {};
}

OpMemory memory(const OpShapes& s, const PlanningContext& planning) {
  // Negative without memory for oneDNN's descriptions; the pass then fails.
  const auto scratch = [&](ConvolutionPass pass, bool bias) {
    if (pass == ConvolutionPass::kForward && has_few_rows(convolution_shape(s))) return int64_t{0};
    return std::max<int64_t>(0, kernels::fp32::convolution_scratch_bytes(convolution_shape(s), pass,
                                                                         bias, planning.threads));
  };
  return {.forward = {.workspace_bytes = copy_bytes(s),
                      .scratch_bytes = scratch(ConvolutionPass::kForward, has_bias(s))},
          .grad_input = {.workspace_bytes = copy_bytes(s),
                         .scratch_bytes = scratch(ConvolutionPass::kGradInput, false)},
          .grad_weights = {.workspace_bytes = gradient_bytes(s),
                           .scratch_bytes = scratch(ConvolutionPass::kGradWeights, has_bias(s))}};
}

// Primitives are created with the executor. Null without memory for them; the pass then fails.
Prepared make(const OpContext& c, ConvolutionPass pass, const Tensor& input, const Tensor& output) {
  const bool bias = c.parameters.size() > 1 && pass != ConvolutionPass::kGradInput;
  return kernels::fp32::make_convolution(convolution_shape(c, input.shape, output.shape), pass,
                                         bias, c.kernel.pool->size());
}
Prepared prepare_forward(const OpContext& c) {
  if (has_few_rows(c)) return nullptr;
  return make(c, ConvolutionPass::kForward, c.inputs[0], c.output());
}
Prepared prepare_backward_input(const OpContext& c) {
  return make(c, ConvolutionPass::kGradInput, c.grad_inputs[0], c.grad_output());
}
Prepared prepare_backward_weights(const OpContext& c) {
  return make(c, ConvolutionPass::kGradWeights, c.inputs[0], c.grad_output());
}

const Convolution* convolution_of(const OpContext& c) {
  return static_cast<const Convolution*>(c.kernel.prepared);
}

void forward_few_rows(const OpContext& c, const float* bias) {
  const int64_t depth = c.inputs[0].shape.last(), outputs = c.output().shape.last();
  const kernels::FloatFewRows layer = {.rows = c.inputs[0].count() / depth,
                                       .outputs = outputs,
                                       .depth = depth,
                                       .x = c.inputs[0].as<float>(),
                                       .weights = weights_of(c),
                                       .bias = bias,
                                       .y = c.output().as<float>()};
  const int64_t least = std::max<int64_t>(1, kFloatsPerThread / depth);
  kernels::parallel_ranges(*c.kernel.pool, outputs, least,
                           [&](int64_t begin, int64_t end, int64_t) {
                             c.kernel.table->floats->few_rows(layer, begin, end);
                           });
}

void forward(const OpContext& c) {
  const float* bias = c.parameters.size() > 1 ? c.parameters[1].mantissa.as<float>() : nullptr;
  if (has_few_rows(c)) return forward_few_rows(c, bias);
  const bool done =
      kernels::fp32::convolution_forward(convolution_of(c), c.inputs[0].as<float>(), weights_of(c),
                                         bias, c.output().as<float>(), c.kernel);
  if (!done) c.step.totals->kernel_failed = true;
}

void backward_input(const OpContext& c) {
  const bool done =
      kernels::fp32::convolution_grad_input(convolution_of(c), c.grad_output().as<float>(),
                                            weights_of(c), c.grad_inputs[0].as<float>(), c.kernel);
  if (!done) c.step.totals->kernel_failed = true;
}

void add_to(const Tensor& gradient, const float* part) {
  auto* sum = gradient.as<float>();
  for (int64_t i = 0; i < gradient.count(); ++i) sum[i] += part[i];
}

void backward_weights(const OpContext& c) {
  auto* weights = reinterpret_cast<float*>(c.memory.workspace);
  float* bias = c.parameters.size() > 1 ? weights + c.parameters[0].gradient.count() : nullptr;
  const bool done =
      kernels::fp32::convolution_grad_weights(convolution_of(c), c.inputs[0].as<float>(),
                                              c.grad_output().as<float>(), weights, bias, c.kernel);
  if (!done) c.step.totals->kernel_failed = true;
  const FloatGrid grid(c.attributes<LayerAttributes>());
  if (grid.is_there()) {
    const auto* master = c.parameters[0].mantissa.as<float>();
    for (int64_t i = 0; i < c.parameters[0].gradient.count(); ++i) {
      weights[i] *= grid.slope(master[i]);
    }
  }
  add_to(c.parameters[0].gradient, weights);
  if (bias != nullptr) add_to(c.parameters[1].gradient, bias);
}

const char* kernel(const OpContext& c) {
  return c.kernel.prepared != nullptr ? "onednn" : c.kernel.table->floats->name;
}

}  // namespace

const OpRows kConvolution = {
    .memory = memory,
    .check = check,
    .forward = {.run = forward, .prepare = prepare_forward},
    .grad_input = {.run = backward_input, .prepare = prepare_backward_input},
    .grad_weights = {.run = backward_weights, .prepare = prepare_backward_weights},
    .kernel = kernel};

}  // namespace mantissa::ops::fp32
