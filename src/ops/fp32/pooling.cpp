// Pooling in fp32.
#include "kernels/pooling/pooling.h"

#include <algorithm>
#include <limits>

#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/pooling/pool_axes.h"

namespace mantissa::ops::fp32 {
namespace {

using kernels::PoolAxis;
using kernels::PoolRange;
using kernels::PoolShape;

// How many images the windows lie in; max_pool, which has no depth, shares its rows here.
int64_t images_of(const OpContext& c, const Tensor& tensor) {
  return pooled_images(c.attributes<PoolAttributes>(), tensor.shape)[0];
}

// Calls visit(window, cell) for each cell of each window of an image, in row-major order, with the
// places of their first channels in the result and in the image.
template <typename Visit>
void for_each_cell(const PoolShape& s, Visit&& visit) {
  for (int64_t window = 0; window < s.out_height * s.out_width; ++window) {
    const PoolRange rows = s.rows(window / s.out_width), columns = s.columns(window % s.out_width);
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      for (int64_t x = columns.begin; x < columns.end; ++x) {
        visit(window * s.channels, (y * s.in_width + x) * s.channels);
      }
    }
  }
}

// Cells that count in the mean of the window whose first channel lies at `window`.
float cells(const PoolAttributes& attributes, const PoolShape& s, int64_t window) {
  const int64_t wx = window / s.channels % s.out_width, wy = window / s.channels / s.out_width;
  if (!attributes.count_padding) {
    return static_cast<float>(s.rows(wy).size() * s.columns(wx).size());
  }
  const auto along = [&](const PoolAxis& axis, int64_t index, int64_t size) {
    const int64_t first = axis.first(index);
    return std::min(first + axis.window, size + axis.padding) - first;
  };
  return static_cast<float>(along(s.vertical, wy, s.in_height) *
                            along(s.horizontal, wx, s.in_width));
}

void max_pool(const OpContext& c) {
  const PoolShape s =
      pool_shape(c.attributes<PoolAttributes>(), c.inputs[0].shape, c.output().shape);
  for_images(c, images_of(c, c.output()), [&](int64_t n) {
    const float* image = c.inputs[0].as<float>() + n * s.in_image();
    float* out = c.output().as<float>() + n * s.out_image();
    std::fill_n(out, s.out_image(), -std::numeric_limits<float>::infinity());
    for_each_cell(s, [&](int64_t window, int64_t cell) {
      for (int64_t i = 0; i < s.channels; ++i) {
        out[window + i] = std::max(out[window + i], image[cell + i]);
      }
    });
  });
}

// To the first maximum of a window.
void max_pool_backward(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const PoolShape s =
      pool_shape(c.attributes<PoolAttributes>(), grad_input.shape, c.grad_output().shape);
  for_images(c, images_of(c, grad_input), [&](int64_t n) {
    const float* image = c.inputs[0].as<float>() + n * s.in_image();
    const float* from = c.grad_output().as<float>() + n * s.out_image();
    float* to = grad_input.as<float>() + n * s.in_image();
    std::fill_n(to, s.in_image(), 0.0f);
    for (int64_t window = 0; window < s.out_height * s.out_width; ++window) {
      const PoolRange rows = s.rows(window / s.out_width),
                      columns = s.columns(window % s.out_width);
      for (int64_t i = 0; i < s.channels; ++i) {
        int64_t best = (rows.begin * s.in_width + columns.begin) * s.channels + i;
        float most = image[best];
        for (int64_t y = rows.begin; y < rows.end; ++y) {
          for (int64_t x = columns.begin; x < columns.end; ++x) {
            const int64_t cell = (y * s.in_width + x) * s.channels + i;
            if (image[cell] > most) most = image[cell], best = cell;
          }
        }
        to[best] += from[window * s.channels + i];
      }
    }
  });
}

void window_average(const OpContext& c) {
  const PoolShape s =
      pool_shape(c.attributes<PoolAttributes>(), c.inputs[0].shape, c.output().shape);
  for_images(c, images_of(c, c.output()), [&](int64_t n) {
    const float* image = c.inputs[0].as<float>() + n * s.in_image();
    float* out = c.output().as<float>() + n * s.out_image();
    std::fill_n(out, s.out_image(), 0.0f);
    for_each_cell(s, [&](int64_t window, int64_t cell) {
      for (int64_t i = 0; i < s.channels; ++i) out[window + i] += image[cell + i];
    });
    for (int64_t window = 0; window < s.out_image(); window += s.channels) {
      const float count = cells(c.attributes<PoolAttributes>(), s, window);
      for (int64_t i = 0; i < s.channels; ++i) out[window + i] /= count;
    }
  });
}

void window_average_backward(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const PoolShape s =
      pool_shape(c.attributes<PoolAttributes>(), grad_input.shape, c.grad_output().shape);
  for_images(c, images_of(c, grad_input), [&](int64_t n) {
    const float* from = c.grad_output().as<float>() + n * s.out_image();
    float* to = grad_input.as<float>() + n * s.in_image();
    std::fill_n(to, s.in_image(), 0.0f);
    for_each_cell(s, [&](int64_t window, int64_t cell) {
      const float count = cells(c.attributes<PoolAttributes>(), s, window);
      for (int64_t i = 0; i < s.channels; ++i) to[cell + i] += from[window + i] / count;
    });
  });
}

void average(const OpContext& c) {
  const Shape& shape = c.inputs[0].shape;
  const int64_t pixels = positions_of_example(shape), channels = shape.last();
  for_images(c, shape[0], [&](int64_t n) {
    const float* in = c.inputs[0].as<float>() + n * pixels * channels;
    float* out = c.output().as<float>() + n * channels;
    std::fill_n(out, channels, 0.0f);
    for (int64_t i = 0; i < pixels * channels; ++i) out[i % channels] += in[i];
    for (int64_t k = 0; k < channels; ++k) out[k] /= static_cast<float>(pixels);
  });
}

void average_backward(const OpContext& c) {
  const Shape& shape = c.grad_inputs[0].shape;
  const int64_t pixels = positions_of_example(shape), channels = shape.last();
  for_images(c, shape[0], [&](int64_t n) {
    const float* from = c.grad_output().as<float>() + n * channels;
    float* to = c.grad_inputs[0].as<float>() + n * pixels * channels;
    for (int64_t i = 0; i < pixels * channels; ++i) {
      to[i] = from[i % channels] / static_cast<float>(pixels);
    }
  });
}

}  // namespace

const OpRows kMaxPool = {
    .forward = {.run = max_pool}, .grad_input = {.run = max_pool_backward}, .kernel = loops_name};
const OpRows kAveragePool = {.forward = {.run = window_average},
                             .grad_input = {.run = window_average_backward},
                             .kernel = loops_name};
const OpRows kGlobalAveragePool = {
    .forward = {.run = average}, .grad_input = {.run = average_backward}, .kernel = loops_name};

}  // namespace mantissa::ops::fp32
