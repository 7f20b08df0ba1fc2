// Taps along the depth in fp32.
#include "ops/shapes/depth_taps.h"

#include "ops/fp32.h"

namespace mantissa::ops::fp32 {
namespace {

void taps_forward(const OpContext& c) {
  const DepthTaps taps = depth_taps(c, c.inputs[0].shape, c.output().shape);
  for_images(c, taps.volumes * taps.out_depth, [&](int64_t image) {
    taps.gather(image, c.inputs[0].as<float>(), c.output().as<float>());
  });
}

void taps_backward(const OpContext& c) {
  const DepthTaps taps = depth_taps(c, c.grad_inputs[0].shape, c.grad_output().shape);
  for_images(c, taps.volumes * taps.in_depth, [&](int64_t image) {
    taps.add_readers(image, 0, taps.elements, c.grad_output().as<float>(),
                     c.grad_inputs[0].as<float>() + image * taps.elements);
  });
}

}  // namespace

const OpRows kDepthTaps = {.forward = {.run = taps_forward},
                           .grad_input = {.run = taps_backward},
                           .kernel = loops_name};

}  // namespace mantissa::ops::fp32
