// The gradient check (gradient_check.h) of norms, functions, sums, reductions and losses.
#include <gtest/gtest.h>

#include "tests/operators/gradient_networks.h"

namespace mantissa::testing::gradients {
namespace {

TEST(GradientCheck, Softmaxes) {
  Network net(Shape{6, 5, 1});
  const int image = net.convolution(4, 3, 1, 1, 1);
  std::vector<int> parts;
  for (const char* over : {"positions", "height", "width", "channels"}) {
    const int shares = net.add(ops::kSoftmax, {image}, {{"over", over}});
    const int weighted = net.add(ops::kMultiply, {image, shares});
    parts.push_back(net.add(ops::kFlatten, {weighted}));
  }
  net.add(ops::kConcat, parts);
  net.add(ops::kLinear, {{"channels", 12}});
  net.add(ops::kSoftmax);
  check_all(net.finish(4), 5, {"backward_input softmax"});
}

// Groups of several channels, of one and of all, with and without a ReLU behind.
TEST(GradientCheck, GroupNorms) {
  Network net(Shape{7, 6, 1});
  net.convolution(6, 3, 1, 1, 1);
  net.add(ops::kGroupNorm, {{"groups", 3}});
  net.add(ops::kRelu);
  net.convolution(5, 3, 2, 1, 1);
  net.add(ops::kGroupNorm, {{"groups", 5}, {"epsilon", 0.01}});
  net.add(ops::kTanh);
  net.convolution(4, 3, 1, 1, 1);
  net.add(ops::kGroupNorm);
  net.add(ops::kGlobalAveragePool);
  check_all(net.finish(4), 5,
            {"backward_input group_norm", "backward_input group_norm+relu",
             "backward_weights group_norm", "backward_weights group_norm+relu"});
}

Graph residual_network() {
  Network net(Shape{8, 8, 1});
  net.convolution(6, 3, 1, 1, 0);
  net.add(ops::kBatchNorm);
  const int input = net.add(ops::kRelu);
  net.convolution(8, 3, 2, 1, 0);
  net.add(ops::kBatchNorm);
  net.add(ops::kRelu);
  net.convolution(8, 3, 1, 1, 0);
  const int branch = net.add(ops::kBatchNorm);
  net.add(ops::kConvolution, {input},
          {{"channels", 8}, {"kernel", 1}, {"stride", 2}, {"padding", 0}, {"bias", 0}});
  const int shortcut = net.add(ops::kBatchNorm);
  net.add(ops::kAdd, {branch, shortcut});
  const int joined = net.add(ops::kRelu);
  net.convolution(8, 3, 1, 1, 1);
  const int again = net.add(ops::kBatchNorm);
  net.add(ops::kAdd, {again, joined});  // without a ReLU
  net.add(ops::kGlobalAveragePool);
  return net.finish(4);
}

TEST(GradientCheck, ResidualBlocksWithBatchNorm) {
  check_all(
      residual_network(), 6,
      {"backward_input batch_norm", "backward_input batch_norm+relu", "backward_weights batch_norm",
       "backward_weights batch_norm+relu", "backward_input add", "backward_input add+relu",
       "backward_input global_average_pool", "backward_input sum_gradients"});
}

TEST(GradientCheck, BatchNormUnderTheGuard) {
  check_all(residual_network(), 6, {}, [](Checked& checked) {
    auto guards = checked.state().bytes(checked.state().layout().guards);
    std::fill(guards.begin(), guards.end(), std::byte{1});
  });
}

TEST(GradientCheck, RescalesWithAndWithoutARange) {
  const Attributes grid = {{"bits", 4}, {"exponent", -3}};
  Network net(Shape{8, 8, 1});
  net.convolution(6, 3, 1, 1, 0);
  net.add(ops::kRescale);
  net.add(ops::kRelu);
  const int unsigned_input =
      net.add(ops::kQuantise, {{"bits", 4}, {"exponent", -3}, {"channels", 8}});
  net.convolution(8, 3, 2, 1, 0);
  net.add_sharing(unsigned_input, ops::kRescale, grid);
  const int signed_input =
      net.add(ops::kQuantise, {{"bits", 5}, {"exponent", -2}, {"signed", 1}, {"channels", 7}});
  net.convolution(7, 1, 1, 0, 0);
  net.add_sharing(signed_input, ops::kRescale,
                  {{"bits", 5}, {"exponent", -2}, {"signed", 1}, {"least_bits", 12}});
  net.add(ops::kRelu);
  net.add(ops::kGlobalAveragePool);
  check_all(
      net.finish(4), 6,
      {"forward rescale", "forward rescale+relu", "backward_input rescale",
       "backward_input rescale+relu", "backward_weights rescale", "backward_weights rescale+relu"});
}

TEST(GradientCheck, AValueAddedToItselfAndReadTwice) {
  Network net(Shape{6, 6, 1});
  const int a = net.convolution(4, 3, 1, 1, 1);
  const int b = net.convolution(4, 3, 1, 1, 1);
  const int twice = net.add(ops::kAdd, {a, a});
  const int sum = net.add(ops::kAdd, {twice, b});
  const int c = net.add(ops::kConvolution, {a}, {{"channels", 4}, {"padding", 1}});
  const int d = net.add(ops::kConvolution, {b}, {{"channels", 4}, {"padding", 1}});
  const int both = net.add(ops::kAdd, {c, d});
  net.add(ops::kAdd, {both, sum});
  net.add(ops::kGlobalAveragePool);
  check_all(net.finish(3), 5, {});
}

TEST(GradientCheck, SmoothedCrossEntropyAndSquaredError) {
  const auto network = [] {
    Network net(Shape{5, 6, 1});
    net.add(ops::kFlatten);
    net.add(ops::kLinear, {{"channels", 7}});
    net.add(ops::kRelu);
    return net.finish(5);
  };
  for (const int64_t smoothing : {6554, 65535}) {
    Checked checked(network(), 6, ops::LossKind::kCrossEntropy, smoothing);
    checked.run();
    EXPECT_TRUE(contains(checked.check(), "backward_input softmax_cross_entropy"));
  }
  Checked checked(network(), 6, ops::LossKind::kSquaredError);
  checked.run();
  EXPECT_TRUE(contains(checked.check(), "backward_input mean_squared_error"));
}

TEST(GradientCheck, SigmoidCrossEntropy) {
  for (const auto& [outputs, by_output] : {std::pair{1, false}, {5, false}, {1, true}, {5, true}}) {
    for (const char* format : {"bfp8", "bfp:g=8"}) {
      Network net(Shape{5, 6, 1});
      net.add(ops::kFlatten);
      net.add(ops::kLinear, {{"channels", 7}});
      net.add(ops::kRelu);
      Checked checked(net.finish(outputs), 6, ops::LossKind::kSigmoids, 0, *parse_format(format),
                      by_output);
      checked.run();
      EXPECT_TRUE(contains(checked.check(), "backward_input sigmoid_cross_entropy"));
    }
  }
}

TEST(GradientCheck, PointFunctions) {
  for (const Op* op : {&ops::kRelu6, &ops::kLeakyRelu, &ops::kSigmoid, &ops::kTanh,
                       &ops::kHardSigmoid, &ops::kHardSwish, &ops::kElu, &ops::kSoftplus,
                       &ops::kMish}) {
    Network net(Shape{7, 6, 1});
    net.convolution(5, 3, 1, 1, 1);
    net.add(*op);
    net.convolution(4, 3, 2, 1, 1);
    net.add(ops::kBatchNorm);
    net.add(*op);
    net.add(ops::kFlatten);
    net.add(ops::kLinear, {{"channels", 7}});
    net.add(*op);
    check_all(net.finish(5), 6, {(std::string("backward_input ") + op->name).c_str()});
  }
}

TEST(GradientCheck, TrainedSlopes) {
  Network net(Shape{7, 6, 1});
  net.convolution(5, 3, 1, 1, 1);
  net.add(ops::kPrelu);
  net.convolution(4, 3, 2, 1, 1);
  net.add(ops::kPrelu, {{"shared", 1}});
  net.add(ops::kFlatten);
  net.add(ops::kLinear, {{"channels", 7}});
  net.add(ops::kPrelu);
  check_all(net.finish(5), 6, {"backward_input prelu", "backward_weights prelu"});
}

TEST(GradientCheck, DifferencesAndReductions) {
  Network net(Shape{6, 5, 1});
  const int a = net.convolution(4, 3, 1, 1, 1);
  const int b = net.add(ops::kConvolution, {a}, {{"channels", 4}, {"padding", 1}});
  const int difference = net.add(ops::kSubtract, {a, b});
  std::vector<int> parts;
  for (const Op* op : {&ops::kReduceMax, &ops::kReduceMean, &ops::kReduceSum}) {
    parts.push_back(net.add(*op, {difference}));
    for (const char* over : {"height", "width", "channels"}) {
      const int some = net.add(*op, {difference}, {{"over", over}});
      parts.push_back(net.add(ops::kFlatten, {some}));
    }
  }
  net.add(ops::kConcat, parts);
  check_all(net.finish(3), 5,
            {"backward_input subtract", "backward_input reduce_max", "backward_input reduce_mean",
             "backward_input reduce_sum"});
}

TEST(GradientCheck, Factors) {
  Network net(Shape{6, 6, 1});
  net.convolution(4, 3, 1, 1, 1);
  net.add(ops::kScale, {{"factor", 2.5}});
  net.convolution(4, 3, 1, 1, 1);
  net.add(ops::kScale, {{"factor", 0.25}});
  net.add(ops::kFlatten);
  check_all(net.finish(3), 5, {"backward_input scale"});
}

TEST(GradientCheck, ProductsAndGates) {
  Network net(Shape{6, 6, 1});
  net.convolution(4, 3, 1, 1, 1);
  const int image = net.add(ops::kTanh);
  net.add(ops::kGlobalAveragePool);
  net.add(ops::kLinear, {{"channels", 4}});
  const int gate = net.add(ops::kHardSigmoid);
  const int gated = net.add(ops::kMultiply, {image, gate});
  net.add(ops::kMultiply, {gated, image});
  const int square = net.add(ops::kMultiply, {net.last(), net.last()});
  net.add(ops::kAdd, {square, image});
  net.convolution(5, 3, 2, 1, 1);
  net.add(ops::kFlatten);
  check_all(net.finish(3), 5, {"backward_input multiply"});
}

}  // namespace
}  // namespace mantissa::testing::gradients
