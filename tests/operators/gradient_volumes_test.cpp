// The gradient check (gradient_check.h) of operators over three axes.
#include <gtest/gtest.h>

#include "tests/operators/gradient_networks.h"

namespace mantissa::testing::gradients {
namespace {

// Convolutions over three axes, with taps that meet padding and results that share images; pools of
// images and of the depth; a depth that is padded at its end alone.
TEST(GradientCheck, Volumes) {
  Network net(Shape{10, 6, 2});
  net.add(ops::kReshape, {{"depth", 5}, {"height", 4}, {"width", 6}, {"channels", 1}});
  net.add(ops::kDepthTaps, {{"kernel", 3}, {"padding", 1}});
  net.convolution(6, 3, 1, 1, 0);
  net.add(ops::kBatchNorm);
  net.add(ops::kRelu);
  net.add(ops::kOverlappingMaxPool,
          {{"over", "depth"}, {"window", 3}, {"stride", 1}, {"padding", 1}});
  net.add(ops::kPad, {{"top", 1}, {"right", 1}});
  net.add(ops::kDepthTaps, {{"kernel", 2}, {"stride", 2}, {"dilation", 2}, {"padding_end", 1}});
  net.add(ops::kConvolution, {{"channels", 6}, {"padding", 1}, {"groups", 6}});
  net.add(ops::kMaxPool, {{"window", 2}});
  net.add(ops::kTransposedConvolution, {{"channels", 4}});
  net.add(ops::kBatchNorm);
  net.add(ops::kRelu);
  net.add(ops::kAveragePool, {{"over", "depth"}, {"window", 2}});
  net.add(ops::kAveragePool, {{"window", 2}, {"stride", 1}});
  net.add(ops::kGlobalAveragePool);
  check_all(net.finish(4), 2,
            {"backward_input depth_taps", "backward_input convolution",
             "backward_weights convolution", "backward_input overlapping_max_pool",
             "backward_input max_pool", "backward_input average_pool", "backward_input pad",
             "backward_input global_average_pool", "backward_weights transposed_convolution"});
}

}  // namespace
}  // namespace mantissa::testing::gradients
