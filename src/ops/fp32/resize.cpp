// Resizing in fp32.
#include "ops/fp32.h"
#include "ops/shapes/resize_taps.h"

namespace mantissa::ops::fp32 {
namespace {

// Calls visit(fine, coarse) for each number of the fine image and the one that it is a copy of.
template <typename Visit>
void for_each_copy(const OpContext& c, const Shape& fine_shape, const Shape& coarse_shape,
                   Visit&& visit) {
  const Shape fine = as_images(fine_shape), coarse = as_images(coarse_shape);
  const int64_t down = fine[1] / coarse[1], across = fine[2] / coarse[2];
  for_images(c, fine[0], [&](int64_t n) {
    for (int64_t y = 0; y < fine[1]; ++y) {
      for (int64_t i = 0; i < fine[2] * fine[3]; ++i) {
        const int64_t x = i / fine[3] / across;
        visit((n * fine[1] + y) * fine[2] * fine[3] + i,
              ((n * coarse[1] + y / down) * coarse[2] + x) * fine[3] + i % fine[3]);
      }
    }
  });
}

void upsample(const OpContext& c) {
  const auto* in = c.inputs[0].as<float>();
  auto* out = c.output().as<float>();
  for_each_copy(c, c.output().shape, c.inputs[0].shape,
                [&](int64_t fine, int64_t coarse) { out[fine] = in[coarse]; });
}

void upsample_backward(const OpContext& c) {
  const auto* from = c.grad_output().as<float>();
  auto* to = c.grad_inputs[0].as<float>();
  for_each(c, c.grad_inputs[0].count(), [&](int64_t i) { to[i] = 0; });
  for_each_copy(c, c.grad_output().shape, c.grad_inputs[0].shape,
                [&](int64_t fine, int64_t coarse) { to[coarse] += from[fine]; });
}

// Calls visit(out, in, weight) for each result and each of its four taps.
template <typename Visit>
void for_each_tap(const OpContext& c, const Shape& in_shape, const Shape& out_shape,
                  Visit&& visit) {
  const Shape in = as_images(in_shape), out = as_images(out_shape);
  const ResizeAxes axes =
      resize_axes(c.attributes<ResizeAttributes>(), in_shape, out_shape);
  const ResizeAxis &vertical = axes.vertical, &horizontal = axes.horizontal;
  const auto denominator = static_cast<float>(vertical.denominator * horizontal.denominator);
  for_images(c, out[0], [&](int64_t n) {
    for (int64_t y = 0; y < out[1]; ++y) {
      const ResizeTap down = vertical.tap(y);
      for (int64_t x = 0; x < out[2]; ++x) {
        const ResizeTap across = horizontal.tap(x);
        const auto tap = [&](int64_t row, int64_t column, int64_t weight) {
          if (weight == 0) return;
          const float part = static_cast<float>(weight) / denominator;
          for (int64_t k = 0; k < out[3]; ++k) {
            visit(((n * out[1] + y) * out[2] + x) * out[3] + k,
                  ((n * in[1] + row) * in[2] + column) * out[3] + k, part);
          }
        };
        tap(down.first, across.first, down.first_weight * across.first_weight);
        tap(down.first, across.second, down.first_weight * across.second_weight);
        tap(down.second, across.first, down.second_weight * across.first_weight);
        tap(down.second, across.second, down.second_weight * across.second_weight);
      }
    }
  });
}

void resize(const OpContext& c) {
  const auto* in = c.inputs[0].as<float>();
  auto* out = c.output().as<float>();
  for_each(c, c.output().count(), [&](int64_t i) { out[i] = 0; });
  for_each_tap(c, c.inputs[0].shape, c.output().shape,
               [&](int64_t to, int64_t from, float weight) { out[to] += weight * in[from]; });
}

void resize_backward(const OpContext& c) {
  const auto* from = c.grad_output().as<float>();
  auto* to = c.grad_inputs[0].as<float>();
  for_each(c, c.grad_inputs[0].count(), [&](int64_t i) { to[i] = 0; });
  for_each_tap(c, c.grad_inputs[0].shape, c.grad_output().shape,
               [&](int64_t out, int64_t in, float weight) { to[in] += weight * from[out]; });
}

}  // namespace

const OpRows kUpsample = {
    .forward = {.run = upsample}, .grad_input = {.run = upsample_backward}, .kernel = loops_name};
const OpRows kBilinearResize = {
    .forward = {.run = resize}, .grad_input = {.run = resize_backward}, .kernel = loops_name};

}  // namespace mantissa::ops::fp32
