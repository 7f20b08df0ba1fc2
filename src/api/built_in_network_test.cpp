// Built-in networks with losses by name, and networks that get another loss.
#include <gtest/gtest.h>

#include <string>

#include "mantissa/network.h"

namespace mantissa {
namespace {

std::string loss_of_json(const Outcome<Network>& network) {
  if (!network) return network.error();
  const std::string json = network->to_json();
  const size_t loss = json.rfind("\"op\": \"");
  return json.substr(loss + 7, json.find('"', loss + 7) - loss - 7);
}

TEST(BuiltInNetwork, HasLossesByName) {
  const auto of = [](BuiltInOptions options) {
    return loss_of_json(Network::built_in("mlp", options));
  };
  EXPECT_EQ(of({}), "softmax_cross_entropy");
  EXPECT_EQ(of({.squared_error = true}), "mean_squared_error");
  EXPECT_EQ(of({.loss = "mse"}), "mean_squared_error");
  EXPECT_EQ(of({.loss = "sigmoid", .by_output = true, .focal = 2}), "sigmoid_cross_entropy");
  EXPECT_EQ(of({.loss = "ordinal"}), "sigmoid_cross_entropy");
  EXPECT_EQ(of({.classes = 1, .loss = "regression"}), "regression_error");
  EXPECT_EQ(of({.loss = "huber", .huber_delta = 2}), "regression_error");
  EXPECT_EQ(of({.loss = "l1"}), "regression_error");
  const auto refuses = [&](const BuiltInOptions& options, const char* part) {
    const auto network = Network::built_in("mlp", options);
    EXPECT_FALSE(network);
    if (!network) {
      EXPECT_NE(network.error().find(part), std::string::npos) << network.error();
    }
  };
  refuses({.loss = "ctc"}, "the node ctc_loss");
  refuses({.loss = "contrastive"}, "contrastive_loss");
  refuses({.loss = "nll"}, "unknown loss 'nll'; choose one of cross-entropy");
  refuses({.label_smoothing = 0.1, .loss = "huber"}, "label_smoothing goes with");
  refuses({.loss = "mse", .focal = 1}, "focal goes with the loss sigmoid only");
  refuses({.loss = "sigmoid", .positive_weights = {32}}, "from 0 to 31");
  refuses({.loss = "dice"}, "logits [..., places, classes]");
}

TEST(NetworkBuilder, GivesANetworkAnotherLoss) {
  NetworkBuilder first("places");
  first.pixels("pixels", {8, 8, 1}, {100});
  const Var logits = first.convolution({.channels = 3, .kernel = 1, .bias = true});
  first.cross_entropy(logits, "labels", 0, "weights");
  const auto network = first.finish({logits});
  ASSERT_TRUE(network) << network.error();
  EXPECT_EQ(network->inputs().size(), 3U);

  NetworkBuilder second(*network);
  ASSERT_EQ(second.outputs().size(), 1U);
  EXPECT_EQ(second.dims(), (Dims{8, 8, 3}));
  second.dice({}, "classes", {.smooth = 4, .cross_entropy = 0.5});
  const auto changed = second.finish(second.outputs());
  ASSERT_TRUE(changed) << changed.error();
  ASSERT_EQ(changed->inputs().size(), 2U);
  EXPECT_EQ(changed->inputs()[1].name, "classes");
  EXPECT_EQ(changed->inputs()[1].dims, (Dims{8, 8}));
  EXPECT_EQ(changed->parameters().size(), network->parameters().size());
  EXPECT_NE(changed->to_json().find("\"means\": [100]"), std::string::npos);
  EXPECT_EQ(loss_of_json(changed), "dice_loss");
}

TEST(NetworkBuilder, ContrastReadsVectors) {
  NetworkBuilder net("vectors");
  net.numbers("numbers", {6}, -12);
  const Var vector = net.linear(8);
  net.contrastive(vector, "person", 0.2);
  const auto network = net.finish({vector});
  EXPECT_EQ(loss_of_json(network), "contrastive_loss");
  NetworkBuilder wrong("cold");
  wrong.numbers("numbers", {6}, -12);
  wrong.contrastive(wrong.linear(8), "person", 0);
  EXPECT_NE(wrong.error().find("temperature"), std::string::npos) << wrong.error();
}

TEST(NetworkBuilder, TripletsReadVectors) {
  NetworkBuilder net("vectors");
  net.numbers("numbers", {6}, -12);
  const Var vector = net.linear(8);
  net.triplet(vector, "person", {.margin = 0.5, .mining = "all"});
  const auto network = net.finish({vector});
  EXPECT_EQ(loss_of_json(network), "triplet_loss");
  NetworkBuilder wrong("soft");
  wrong.numbers("numbers", {6}, -12);
  wrong.triplet(wrong.linear(8), "person", {.mining = "soft"});
  EXPECT_NE(wrong.error().find("hard"), std::string::npos) << wrong.error();
}

TEST(NetworkBuilder, CtcSharesLengthsWithLayers) {
  NetworkBuilder net("speech");
  const Var frames = net.numbers("numbers", {12, 6}, -12);
  net.indices("lengths", {});
  const Var logits = net.linear(5, frames);
  net.ctc(logits, "letters", 4, {.blank = 4, .lengths = "lengths"});
  const auto network = net.finish({logits});
  ASSERT_TRUE(network) << network.error();
  EXPECT_EQ(loss_of_json(network), "ctc_loss");
  ASSERT_EQ(network->inputs().size(), 3U);
  EXPECT_EQ(network->inputs()[2].name, "letters");
  EXPECT_EQ(network->inputs()[2].dims, Dims{4});
  NetworkBuilder own("own");
  const Var z = own.linear(5, own.numbers("numbers", {12, 6}, -12));
  own.ctc(z, "letters", 4, {.lengths = "frames"});
  const auto added = own.finish({z});
  ASSERT_TRUE(added) << added.error();
  EXPECT_EQ(added->inputs()[2].name, "frames");
  NetworkBuilder wrong("many");
  wrong.ctc(wrong.linear(5, wrong.numbers("numbers", {12, 6}, -12)), "letters", 13);
  EXPECT_NE(wrong.error().find("at most as many labels"), std::string::npos) << wrong.error();
}

}  // namespace
}  // namespace mantissa
