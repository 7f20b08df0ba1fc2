// Input, ReLU, add and sums of gradients in fp32.
#include <algorithm>
#include <array>
#include <cmath>

#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/pixels.h"

namespace mantissa::ops::fp32 {
namespace {

// As the integer op: pixel - mean of the channel, in units of 1/64. Means are exact in fp32.
void normalise_input(const OpContext& c) {
  const int64_t channels = c.output().shape.last();
  const auto mean = pixel_means(c.attributes<InputAttributes>());
  const float unit = std::ldexp(1.0f, kPixelExponent);
  const auto* pixels = c.inputs[0].as<uint8_t>();
  auto* out = c.output().as<float>();
  for_each(c, c.output().count(), [&](int64_t i) {
    out[i] = (static_cast<float>(pixels[i]) - mean[i % channels]) * unit;
  });
}

// Numbers are exact in fp32: 16 bits times a power of two.
void quantise_input(const OpContext& c) {
  const auto* numbers = c.inputs[0].as<int16_t>();
  const float unit = std::ldexp(1.0f, *c.inputs[0].exponent);
  auto* out = c.output().as<float>();
  for_each(c, c.output().count(),
           [&](int64_t i) { out[i] = static_cast<float>(numbers[i]) * unit; });
}

void relu(const OpContext& c) {
  const auto* in = c.inputs[0].as<float>();
  auto* out = c.output().as<float>();
  for_each(c, c.output().count(), [&](int64_t i) { out[i] = std::max(in[i], 0.0f); });
}

// Passes the gradient if the output of a ReLU is positive.
void pass_positive(const OpContext& c, const Tensor& grad_input) {
  const auto *output = c.output().as<float>(), *grad_output = c.grad_output().as<float>();
  auto* out = grad_input.as<float>();
  for_each(c, grad_input.count(),
           [&](int64_t i) { out[i] = output[i] > 0 ? grad_output[i] : 0.0f; });
}

void relu_backward(const OpContext& c) { pass_positive(c, c.grad_inputs[0]); }

void add(const OpContext& c) {
  const auto *a = c.inputs[0].as<float>(), *b = c.inputs[1].as<float>();
  auto* out = c.output().as<float>();
  const float least = c.mode.relu ? 0.0f : -__builtin_huge_valf();
  for_each(c, c.output().count(), [&](int64_t i) { out[i] = std::max(a[i] + b[i], least); });
}

// Both inputs receive this gradient (they share one buffer).
void add_backward(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0].empty() ? c.grad_inputs[1] : c.grad_inputs[0];
  if (c.mode.relu) return pass_positive(c, grad_input);
  const auto* in = c.grad_output().as<float>();
  auto* out = grad_input.as<float>();
  for_each(c, grad_input.count(), [&](int64_t i) { out[i] = in[i]; });
}

void subtract(const OpContext& c) {
  const auto *a = c.inputs[0].as<float>(), *b = c.inputs[1].as<float>();
  auto* out = c.output().as<float>();
  for_each(c, c.output().count(), [&](int64_t i) { out[i] = a[i] - b[i]; });
}

void subtract_backward(const OpContext& c) {
  const auto* in = c.grad_output().as<float>();
  const Tensor &first = c.grad_inputs[0], &second = c.grad_inputs[1];
  if (!first.empty()) {
    for_each(c, first.count(), [&](int64_t i) { first.as<float>()[i] = in[i]; });
  }
  if (!second.empty()) {
    for_each(c, second.count(), [&](int64_t i) { second.as<float>()[i] = -in[i]; });
  }
}

void sum_gradients(const OpContext& c) {
  const auto *a = c.inputs[0].as<float>(), *b = c.inputs[1].as<float>();
  auto* out = c.grad_inputs[0].as<float>();
  for_each(c, c.grad_inputs[0].count(), [&](int64_t i) { out[i] = a[i] + b[i]; });
}

}  // namespace

const OpRows kQuantiseInput = {.forward = {.run = quantise_input}, .kernel = loops_name};
const OpRows kNormaliseInput = {.forward = {.run = normalise_input}, .kernel = loops_name};
const OpRows kRelu = {
    .forward = {.run = relu}, .grad_input = {.run = relu_backward}, .kernel = loops_name};
const OpRows kAdd = {
    .forward = {.run = add}, .grad_input = {.run = add_backward}, .kernel = loops_name};
const OpRows kSubtract = {
    .forward = {.run = subtract}, .grad_input = {.run = subtract_backward}, .kernel = loops_name};
const OpRows kSumGradients = {.grad_input = {.run = sum_gradients}, .kernel = loops_name};

}  // namespace mantissa::ops::fp32
