// Functions of one value in fp32, dropout, and products.
#include <algorithm>
#include <cmath>

#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/pointwise/dropout_mask.h"

namespace mantissa::ops::fp32 {
namespace {

// A function and its slope, without branches for ReLU6, so that compilers vectorise it. At kinks
// the slope is the integer op's. `slope` is leaky_relu's.
struct Relu6 {
  static float value(float x, float) { return std::min(std::max(x, 0.0f), 6.0f); }
  static float derivative(float x, float) { return (x > 0 ? 1.0f : 0.0f) * (x < 6 ? 1.0f : 0.0f); }
};
struct LeakyRelu {
  static float value(float x, float slope) { return x > 0 ? x : slope * x; }
  static float derivative(float x, float slope) { return x > 0 ? 1.0f : slope; }
};
struct HardSigmoid {
  static float value(float x, float) { return std::min(std::max(x + 3, 0.0f), 6.0f) / 6; }
  static float derivative(float x, float) { return x > -3 && x < 3 ? 1.0f / 6 : 0.0f; }
};
struct HardSwish {
  static float value(float x, float) { return x * HardSigmoid::value(x, 0); }
  static float derivative(float x, float) {
    if (x <= -3) return 0;
    return x >= 3 ? 1 : (2 * x + 3) / 6;
  }
};

// Read by leaky ReLU only, which alone has attributes.
float slope_of(const OpContext& c) {
  if (c.node.attributes->items().empty()) return 0;
  const Fraction& slope = c.attributes<LeakyReluAttributes>().fraction;
  return static_cast<float>(slope.numerator) / static_cast<float>(slope.denominator);
}

template <typename Function>
void forward(const OpContext& c) {
  const float slope = slope_of(c);
  const auto* in = c.inputs[0].as<float>();
  auto* out = c.output().as<float>();
  for_each(c, c.output().count(), [&](int64_t i) { out[i] = Function::value(in[i], slope); });
}

template <typename Function>
void backward(const OpContext& c) {
  const float slope = slope_of(c);
  const auto *in = c.inputs[0].as<float>(), *from = c.grad_output().as<float>();
  auto* to = c.grad_inputs[0].as<float>();
  for_each(c, c.grad_inputs[0].count(),
           [&](int64_t i) { to[i] = from[i] * Function::derivative(in[i], slope); });
}

void pass(const OpContext& c) {
  std::copy_n(c.inputs[0].as<float>(), c.output().count(), c.output().as<float>());
}

void pass_backward(const OpContext& c) {
  std::copy_n(c.grad_output().as<float>(), c.grad_inputs[0].count(), c.grad_inputs[0].as<float>());
}

template <typename Function>
constexpr OpRows row() {
  return {.forward = {.run = forward<Function>},
          .grad_input = {.run = backward<Function>},
          .kernel = loops_name};
}

template <kernels::FloatFunction kFunction>
constexpr OpRows function_row() {
  return {.forward = {.run =
                          [](const OpContext& c) {
                            for_ranges(c, c.output().count(), [&](int64_t begin, int64_t end) {
                              c.kernel.table->floats->function(
                                  kFunction, c.inputs[0].as<float>() + begin,
                                  c.output().as<float>() + begin, end - begin);
                            });
                          }},
          .grad_input = {.run =
                             [](const OpContext& c) {
                               for_ranges(c, c.grad_inputs[0].count(),
                                          [&](int64_t begin, int64_t end) {
                                            c.kernel.table->floats->function_backward(
                                                kFunction, c.inputs[0].as<float>() + begin,
                                                c.grad_output().as<float>() + begin,
                                                c.grad_inputs[0].as<float>() + begin, end - begin);
                                          });
                             }},
          .kernel = floats_name};
}

// GELU's approximation with tanh: x sigmoid(u) of u = k (x + c x^3), by the sigmoid's kernel. Beyond
// 10 sigmoid(u) is 0 or 1, and u stays finite.
constexpr float kBend = 1.5957691F, kBendOfCube = 0.071354816F;
float clipped(float x) { return std::min(std::max(x, -10.0F), 10.0F); }

void sigmoid_of_bent(const OpContext& c, const float* x, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float near = clipped(x[i]);
    to[i] = near * (kBend + kBendOfCube * near * near);
  }
  c.kernel.table->floats->function(kernels::FloatFunction::kSigmoid, to, to, count);
}

void gelu_tanh(const OpContext& c) {
  for_ranges(c, c.output().count(), [&](int64_t begin, int64_t end) {
    const float* x = c.inputs[0].as<float>() + begin;
    float* const y = c.output().as<float>() + begin;
    sigmoid_of_bent(c, x, y, end - begin);
    for (int64_t i = 0; i < end - begin; ++i) y[i] *= x[i];
  });
}

void gelu_tanh_backward(const OpContext& c) {
  for_ranges(c, c.grad_inputs[0].count(), [&](int64_t begin, int64_t end) {
    const float* x = c.inputs[0].as<float>() + begin;
    const float* dy = c.grad_output().as<float>() + begin;
    float* const dx = c.grad_inputs[0].as<float>() + begin;
    sigmoid_of_bent(c, x, dx, end - begin);
    for (int64_t i = 0; i < end - begin; ++i) {
      const float near = clipped(x[i]), s = dx[i];
      const float slope = kBend + 3 * kBendOfCube * near * near;
      dx[i] = dy[i] * (s + near * s * (1 - s) * slope);
    }
  });
}

// The floats' kernel has an alpha of 1.
void scale_below_zero(const OpContext& c, const Tensor& out) {
  const Fraction& alpha = c.attributes<EluAttributes>().fraction;
  const float factor =
      static_cast<float>(alpha.numerator) / static_cast<float>(alpha.denominator);
  if (factor == 1) return;
  const auto* in = c.inputs[0].as<float>();
  for_each(c, out.count(), [&](int64_t i) { out.as<float>()[i] *= in[i] > 0 ? 1.0f : factor; });
}

constexpr OpRows kEluOfOne = function_row<kernels::FloatFunction::kElu>();

void elu(const OpContext& c) {
  kEluOfOne.forward.run(c);
  scale_below_zero(c, c.output());
}

void elu_backward(const OpContext& c) {
  kEluOfOne.grad_input.run(c);
  scale_below_zero(c, c.grad_inputs[0]);
}

// The integer op's mask.
void drop(const OpContext& c, const float* in, float* out, int64_t count) {
  const auto kept = static_cast<float>(kDropoutOne - dropped_of(c)) / kDropoutOne;
  for_ranges(c, count, [&](int64_t begin, int64_t end) {
    for_each_mask(c, begin, end, [&](const int8_t* keep, int64_t at, int64_t length) {
      for (int64_t i = 0; i < length; ++i) out[at + i] = keep[i] != 0 ? in[at + i] / kept : 0.0f;
    });
  });
}

void multiply_by(const OpContext& c, const Tensor& from, const Tensor& to) {
  const auto& attributes = c.attributes<ScaleAttributes>();
  const auto factor =
      static_cast<float>(std::ldexp(static_cast<double>(attributes.mantissa), attributes.exponent));
  for_each(c, to.count(), [&, in = from.as<float>(), out = to.as<float>()](int64_t i) {
    out[i] = in[i] * factor;
  });
}

void dropout(const OpContext& c) {
  if (is_training(c.mode.exponents)) {
    return drop(c, c.inputs[0].as<float>(), c.output().as<float>(), c.output().count());
  }
  pass(c);
}

void dropout_backward(const OpContext& c) {
  drop(c, c.grad_output().as<float>(), c.grad_inputs[0].as<float>(), c.grad_inputs[0].count());
}

// The place of the second operand's element for element i of the first. The second has the same
// shape, or one element for each channel of an image.
struct Partner {
  int64_t image, channels;
  bool gate;
  Partner(const Shape& a, const Shape& b)
      : image(a.count() / a[0]), channels(a.last()), gate(b.count() != a.count()) {}
  int64_t operator()(int64_t i) const { return gate ? i / image * channels + i % channels : i; }
};

void multiply(const OpContext& c) {
  const Partner partner(c.inputs[0].shape, c.inputs[1].shape);
  const auto *a = c.inputs[0].as<float>(), *b = c.inputs[1].as<float>();
  auto* out = c.output().as<float>();
  for_each(c, c.output().count(), [&](int64_t i) { out[i] = a[i] * b[partner(i)]; });
}

void multiply_backward(const OpContext& c) {
  const Partner partner(c.inputs[0].shape, c.inputs[1].shape);
  const auto *a = c.inputs[0].as<float>(), *b = c.inputs[1].as<float>();
  const auto* from = c.grad_output().as<float>();
  if (const Tensor& to = c.grad_inputs[0]; !to.empty()) {
    for_each(c, to.count(), [&](int64_t i) { to.as<float>()[i] = from[i] * b[partner(i)]; });
  }
  if (const Tensor& to = c.grad_inputs[1]; !to.empty()) {
    const int64_t images = to.shape[0], size = to.count() / images;
    for_images(c, images, [&](int64_t n) {
      std::fill_n(to.as<float>() + n * size, size, 0.0f);
      for (int64_t i = n * partner.image; i < (n + 1) * partner.image; ++i) {
        to.as<float>()[partner(i)] += from[i] * a[i];
      }
    });
  }
}

}  // namespace

const OpRows kPass = {
    .forward = {.run = pass}, .grad_input = {.run = pass_backward}, .kernel = loops_name};
const OpRows kRelu6 = row<Relu6>();
const OpRows kLeakyRelu = row<LeakyRelu>();
const OpRows kSigmoid = function_row<kernels::FloatFunction::kSigmoid>();
const OpRows kTanh = function_row<kernels::FloatFunction::kTanh>();
const OpRows kHardSigmoid = row<HardSigmoid>();
const OpRows kHardSwish = row<HardSwish>();
const OpRows kGelu = function_row<kernels::FloatFunction::kGelu>();
const OpRows kGeluTanh = {.forward = {.run = gelu_tanh},
                          .grad_input = {.run = gelu_tanh_backward},
                          .kernel = floats_name};
const OpRows kSilu = function_row<kernels::FloatFunction::kSilu>();
const OpRows kElu = {
    .forward = {.run = elu}, .grad_input = {.run = elu_backward}, .kernel = floats_name};
const OpRows kSoftplus = function_row<kernels::FloatFunction::kSoftplus>();
const OpRows kMish = function_row<kernels::FloatFunction::kMish>();
const OpRows kScale = {
    .forward = {.run = [](const OpContext& c) { multiply_by(c, c.inputs[0], c.output()); }},
    .grad_input = {.run = [](const OpContext& c) {
      multiply_by(c, c.grad_output(), c.grad_inputs[0]);
    }},
    .kernel = loops_name};
const OpRows kDropout = {
    .forward = {.run = dropout}, .grad_input = {.run = dropout_backward}, .kernel = loops_name};
const OpRows kMultiply = {
    .forward = {.run = multiply}, .grad_input = {.run = multiply_backward}, .kernel = loops_name};

}  // namespace mantissa::ops::fp32
