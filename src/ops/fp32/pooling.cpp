// Pooling in fp32.
#include <algorithm>

#include "ops/fp32/fp32.h"

namespace mantissa::ops::fp32 {
namespace {

// Windows do not overlap.
struct Windows {
  int64_t height, width, channels, window, out_height, out_width;
  Windows(const Attributes& attributes, const Shape& input, const Shape& output)
      : height(input[1]),
        width(input[2]),
        channels(input[3]),
        window(attributes.get("window", 2)),
        out_height(output[1]),
        out_width(output[2]) {}

  // Calls visit(result, where the maximum is) for each result of an image: the first in row-major
  // order.
  template <typename Visit>
  void for_each_maximum(const float* image, Visit&& visit) const {
    for (int64_t i = 0; i < out_height * out_width * channels; ++i) {
      const int64_t c = i % channels, x = i / channels % out_width, y = i / channels / out_width;
      int64_t best = (y * window * width + x * window) * channels + c;
      for (int64_t tap = 0; tap < window * window; ++tap) {
        const int64_t row = y * window + tap / window, column = x * window + tap % window;
        const int64_t at = (row * width + column) * channels + c;
        if (image[at] > image[best]) best = at;
      }
      visit(i, best);
    }
  }
};

void max_pool(const OpContext& c) {
  const Tensor& input = c.inputs[0];
  const Windows windows(*c.attributes, input.shape, c.output.shape);
  const int64_t in_count = input.count() / input.shape[0],
                out_count = c.output.count() / input.shape[0];
  for_images(c, input.shape[0], [&](int64_t n) {
    const float* image = input.as<float>() + n * in_count;
    float* out = c.output.as<float>() + n * out_count;
    windows.for_each_maximum(image, [&](int64_t i, int64_t at) { out[i] = image[at]; });
  });
}

void max_pool_backward(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const Windows windows(*c.attributes, grad_input.shape, c.grad_output.shape);
  const int64_t images = grad_input.shape[0];
  const int64_t in_count = grad_input.count() / images, out_count = c.grad_output.count() / images;
  for_images(c, images, [&](int64_t n) {
    const float* image = c.inputs[0].as<float>() + n * in_count;
    const float* from = c.grad_output.as<float>() + n * out_count;
    float* to = grad_input.as<float>() + n * in_count;
    std::fill_n(to, in_count, 0.0f);
    windows.for_each_maximum(image, [&](int64_t i, int64_t at) { to[at] += from[i]; });
  });
}

void average(const OpContext& c) {
  const Shape& shape = c.inputs[0].shape;
  const int64_t pixels = shape[1] * shape[2], channels = shape[3];
  for_images(c, shape[0], [&](int64_t n) {
    const float* in = c.inputs[0].as<float>() + n * pixels * channels;
    float* out = c.output.as<float>() + n * channels;
    std::fill_n(out, channels, 0.0f);
    for (int64_t i = 0; i < pixels * channels; ++i) out[i % channels] += in[i];
    for (int64_t k = 0; k < channels; ++k) out[k] /= static_cast<float>(pixels);
  });
}

void average_backward(const OpContext& c) {
  const Shape& shape = c.grad_inputs[0].shape;
  const int64_t pixels = shape[1] * shape[2], channels = shape[3];
  for_images(c, shape[0], [&](int64_t n) {
    const float* from = c.grad_output.as<float>() + n * channels;
    float* to = c.grad_inputs[0].as<float>() + n * pixels * channels;
    for (int64_t i = 0; i < pixels * channels; ++i) {
      to[i] = from[i % channels] / static_cast<float>(pixels);
    }
  });
}

}  // namespace

const OpFunctions kMaxPool = {
    .forward = max_pool, .backward_input = max_pool_backward, .kernel = loops_name};
const OpFunctions kGlobalAveragePool = {
    .forward = average, .backward_input = average_backward, .kernel = loops_name};

}  // namespace mantissa::ops::fp32
