// Transposed convolution in fp32: oneDNN's convolution with the roles of its operands exchanged.
#include <algorithm>

#include "kernels/fp32/convolution.h"
#include "kernels/fp32/onednn.h"
#include "ops/convolutions/transposed_shape.h"
#include "ops/fp32.h"

namespace mantissa::ops::fp32 {
namespace {

using kernels::ConvolutionPass;
using kernels::ConvolutionShape;
using kernels::fp32::Convolution;

ConvolutionShape underlying_of(const OpShapes& s) {
  return underlying_shape(s.attributes->as<TransposedAttributes>(), s.inputs[0], s.output);
}

Prepared make_underlying(const OpContext& c, ConvolutionPass pass, const Shape& input,
                         const Shape& output) {
  return kernels::fp32::make_convolution(
      underlying_shape(c.attributes<TransposedAttributes>(), input, output), pass, false,
      c.kernel.pool->size());
}
Prepared prepare_transposed_forward(const OpContext& c) {
  return make_underlying(c, ConvolutionPass::kGradInput, c.inputs[0].shape, c.output().shape);
}
Prepared prepare_transposed_input(const OpContext& c) {
  return make_underlying(c, ConvolutionPass::kForward, c.grad_inputs[0].shape,
                         c.grad_output().shape);
}
Prepared prepare_transposed_weights(const OpContext& c) {
  return make_underlying(c, ConvolutionPass::kGradWeights, c.inputs[0].shape,
                         c.grad_output().shape);
}

const Convolution* underlying_convolution(const OpContext& c) {
  return static_cast<const Convolution*>(c.kernel.prepared);
}

// The weights [O, KH, KW, C / G] as the convolution has them.
const float* exchanged_weights(const OpContext& c) {
  const Tensor& weights = c.parameters[0].mantissa;
  auto* const to = reinterpret_cast<float*>(c.memory.workspace);
  const int64_t groups = c.attributes<TransposedAttributes>().groups;
  exchange_channels(weights.as<float>(), weights.shape[0], weights.shape[1] * weights.shape[2],
                    weights.shape[3] * groups, groups, to);
  return to;
}

void transposed_forward(const OpContext& c) {
  auto* const out = c.output().as<float>();
  const bool done =
      kernels::fp32::convolution_grad_input(underlying_convolution(c), c.inputs[0].as<float>(),
                                            exchanged_weights(c), out, c.kernel);
  if (!done) c.step.totals->kernel_failed = true;
  if (c.parameters.size() < 2) return;
  const auto* bias = c.parameters[1].mantissa.as<float>();
  const int64_t channels = c.output().shape.last();
  for_each(c, c.output().count(), [&](int64_t i) { out[i] += bias[i % channels]; });
}

void transposed_backward_input(const OpContext& c) {
  const bool done = kernels::fp32::convolution_forward(
      underlying_convolution(c), c.grad_output().as<float>(), exchanged_weights(c), nullptr,
      c.grad_inputs[0].as<float>(), c.kernel);
  if (!done) c.step.totals->kernel_failed = true;
}

void transposed_backward_weights(const OpContext& c) {
  auto* const sums = reinterpret_cast<float*>(c.memory.workspace);
  const bool done = kernels::fp32::convolution_grad_weights(
      underlying_convolution(c), c.grad_output().as<float>(), c.inputs[0].as<float>(), sums,
      nullptr, c.kernel);
  if (!done) c.step.totals->kernel_failed = true;
  const Tensor& gradient = c.parameters[0].gradient;
  const int64_t out = gradient.shape[0], taps = gradient.shape[1] * gradient.shape[2],
                in = gradient.shape[3];
  auto* total = gradient.as<float>();
  const int64_t of_group = out / c.attributes<TransposedAttributes>().groups;
  for (int64_t o = 0; o < out; ++o) {
    const float* const group = sums + o / of_group * in * taps * of_group + o % of_group;
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t i = 0; i < in; ++i) *total++ += group[(i * taps + tap) * of_group];
    }
  }
  if (c.parameters.size() < 2) return;
  auto* bias = c.parameters[1].gradient.as<float>();
  const auto* from = c.grad_output().as<float>();
  for (int64_t i = 0; i < c.grad_output().count(); ++i) bias[i % out] += from[i];
}

OpMemory transposed_memory(const OpShapes& s, const PlanningContext& planning) {
  const int64_t weights = s.parameters[0].count() * int64_t{sizeof(float)};
  const auto scratch = [&](ConvolutionPass pass) {
    return std::max<int64_t>(0, kernels::fp32::convolution_scratch_bytes(underlying_of(s), pass,
                                                                         false, planning.threads));
  };
  return {.forward = {.workspace_bytes = weights,
                      .scratch_bytes = scratch(ConvolutionPass::kGradInput)},
          .grad_input = {.workspace_bytes = weights,
                         .scratch_bytes = scratch(ConvolutionPass::kForward)},
          .grad_weights = {.workspace_bytes = weights,
                           .scratch_bytes = scratch(ConvolutionPass::kGradWeights)}};
}

Status check_transposed(const OpShapes& s) {
  MANTISSA_RETURN_IF_ERROR(kernels::fp32::load_onednn());
  for (const ConvolutionPass pass :
       {ConvolutionPass::kForward, ConvolutionPass::kGradInput, ConvolutionPass::kGradWeights}) {
    if (kernels::fp32::convolution_scratch_bytes(underlying_of(s), pass, false, 1) < 0) {
      return failed("oneDNN has no fp32 kernel for this shape");
    }
  }
  return {};
}

}  // namespace

const OpRows kTransposedConvolution = {
    .memory = transposed_memory,
    .check = check_transposed,
    .forward = {.run = transposed_forward, .prepare = prepare_transposed_forward},
    .grad_input = {.run = transposed_backward_input, .prepare = prepare_transposed_input},
    .grad_weights = {.run = transposed_backward_weights, .prepare = prepare_transposed_weights},
    .kernel = [](const OpContext&) -> const char* { return "onednn"; }};

}  // namespace mantissa::ops::fp32
