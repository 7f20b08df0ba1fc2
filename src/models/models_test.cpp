// The networks as published: their parameters, the effects of the width and of the image's size,
// and refusals.
#include "models/models.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/bert.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

Graph build(const char* name, const ModelOptions& options = {}) {
  auto graph = build_model(name, options);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return graph.ok() ? std::move(*graph) : Graph{};
}

// Trained parameters without the classifier's: published networks have 1000 classes.
int64_t backbone_parameters(const Graph& graph) {
  int64_t count = graph.trained_parameters();
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.name.starts_with("classifier.")) count -= parameter.shape.count();
  }
  return count;
}

constexpr ModelOptions kImageNet = {.height = 224, .width = 224, .channels = 3, .classes = 100};

// torchvision's counts with 1000 classes, less their classifiers.
TEST(Models, HaveThePublishedParameters) {
  EXPECT_EQ(backbone_parameters(build("resnet18", kImageNet)), 11'689'512 - 512 * 1000 - 1000);
  EXPECT_EQ(backbone_parameters(build("resnet50", kImageNet)), 25'557'032 - 2048 * 1000 - 1000);
  EXPECT_EQ(backbone_parameters(build("mobilenet_v2", kImageNet)), 3'504'872 - 1280 * 1000 - 1000);
  // Without the 4,224 biases in front of batch norm.
  EXPECT_EQ(backbone_parameters(build("vgg16_bn", kImageNet)),
            138'365'992 - 4096 * 1000 - 1000 - 4'224);
  // Batch norm's two parameters per channel instead of a bias: 2,944 more.
  EXPECT_EQ(backbone_parameters(build("squeezenet", kImageNet)),
            1'235'496 - 512 * 1000 - 1000 + 2'944);
}

// 0.27, 0.85 and 1.7 million: He and others' networks for CIFAR-10, here with projections if the
// shape changes.
TEST(Models, HaveTheParametersOfSmallResidualNetworks) {
  const ModelOptions cifar = {.height = 32, .width = 32, .channels = 3};
  for (const auto& [name, millions] :
       {std::pair{"resnet20", 0.27}, {"resnet56", 0.85}, {"resnet110", 1.73}}) {
    EXPECT_NEAR(static_cast<double>(build(name, cifar).trained_parameters()) / 1e6, millions, 0.01)
        << name;
  }
  EXPECT_NEAR(static_cast<double>(build("inception_small").trained_parameters()) / 1e6, 1.0, 0.1);
}

// transformers' count of BERT-base and BERT-large without their poolers.
TEST(Models, HaveTheParametersOfBert) {
  constexpr int64_t kVocabulary = 30522;
  const BertSizes base = {
      .layers = 12, .channels = 768, .heads = 12, .inner = 3072, .vocabulary = kVocabulary};
  const BertSizes large = {
      .layers = 24, .channels = 1024, .heads = 16, .inner = 4096, .vocabulary = kVocabulary};
  EXPECT_EQ(bert_encoder("base", base, 128)->trained_parameters(), 109'482'240 - 768 * 769);
  EXPECT_EQ(bert_encoder("large", large, 128)->trained_parameters(), 335'141'888 - 1024 * 1025);
}

TEST(Models, BertRefusesLongSequencesAndOddHeads) {
  EXPECT_FALSE(bert_encoder("bert", {.vocabulary = 10, .positions = 16}, 17).ok());
  EXPECT_FALSE(bert_encoder("bert", {.heads = 3, .vocabulary = 10}, 16).ok());
  EXPECT_TRUE(bert_encoder("bert", {.vocabulary = 10, .positions = 16}, 16).ok());
}

TEST(Models, WidthScalesBert) {
  const ModelOptions options = {.classes = 100, .sequence = 16, .tied = true};
  ModelOptions half = options;
  half.width_multiplier = 0.5;
  const Graph whole = build("bert_tiny", options), small = build("bert_tiny", half);
  EXPECT_EQ(whole.classes(), 100);
  EXPECT_EQ(whole.values[whole.nodes[0].outputs[0]].shape.last(), 128);
  EXPECT_EQ(small.values[small.nodes[0].outputs[0]].shape.last(), 64);
}

TEST(Models, VocabulariesAreLargerThanSetsOfClasses) {
  for (const bool tied : {false, true}) {
    const ModelOptions options = {
        .classes = 262144, .width_multiplier = 0.25, .sequence = 16, .tied = tied};
    EXPECT_EQ(build("transformer_lm", options).classes(), 262144);
  }
  const auto tokens = build_model("transformer_lm", {.classes = 262145, .sequence = 16});
  ASSERT_FALSE(tokens.ok());
  EXPECT_NE(tokens.error().message.find("between 2 and 262144"), std::string::npos);
  const auto classes = build_model("resnet8", {.classes = 4097});
  ASSERT_FALSE(classes.ok());
  EXPECT_NE(classes.error().message.find("between 2 and 4096"), std::string::npos);
}

TEST(Models, WidthScalesEveryNetwork) {
  for (const ModelInfo& info : models()) {
    const int64_t whole = build(info.name).trained_parameters();
    const int64_t half = build(info.name, {.width_multiplier = 0.5}).trained_parameters();
    EXPECT_LT(half, whole * 3 / 5) << info.name;
    EXPECT_GT(half, whole / 5) << info.name;
    EXPECT_GT(build(info.name, {.width_multiplier = 2}).trained_parameters(), whole) << info.name;
    EXPECT_GT(build(info.name, {.width_multiplier = 1.0 / 64}).trained_parameters(), 0);
  }
}

TEST(Models, ClassesAreThoseAskedFor) {
  for (const ModelInfo& info : models()) {
    EXPECT_EQ(build(info.name, {.classes = 17}).classes(), 17) << info.name;
  }
}

// Height of the image that the last pool, or flatten, reads.
int64_t last_height(const Graph& graph) {
  int64_t height = 0;
  for (const Value& value : graph.values) {
    if (value.shape.rank == 3) height = value.shape[0];
  }
  return height;
}

TEST(Models, EarlyStridesAreForImagesOfMoreThan64Pixels) {
  const auto height = [](const char* name, int64_t size) {
    return last_height(build(name, {.height = size, .width = size, .channels = 3}));
  };
  for (const char* name : {"resnet18", "resnet50"}) {
    EXPECT_EQ(height(name, 224), 7) << name;
    EXPECT_EQ(height(name, 64), 8) << name;
    EXPECT_EQ(height(name, 32), 4) << name;
    EXPECT_EQ(height(name, 28), 4) << name;
  }
  EXPECT_EQ(height("mobilenet_v2", 224), 7);
  EXPECT_EQ(height("mobilenet_v2", 32), 4);
  EXPECT_EQ(height("vgg16_bn", 224), 7);
  EXPECT_EQ(height("vgg16_bn", 32), 1);
  EXPECT_EQ(height("vgg16_bn", 28), 1);
  EXPECT_EQ(height("squeezenet", 224), 13);
  EXPECT_EQ(height("squeezenet", 32), 4);
}

TEST(Models, ImagesThatAreTooSmallAreRefused) {
  for (const char* name : {"lenet5", "vgg8b", "vgg16_bn", "squeezenet"}) {
    const auto graph = build_model(name, {.height = 4, .width = 5, .channels = 3});
    ASSERT_FALSE(graph.ok()) << name;
    EXPECT_TRUE(graph.error().message.starts_with(std::string(name) + ", images of 4x5x3: node '"))
        << graph.error().message;
    EXPECT_NE(graph.error().message.find("does not fit an image of ["), std::string::npos);
  }
}

TEST(Models, EachFamilyHasItsOperators) {
  const auto count = [](const Graph& graph, const Op& op) {
    return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                         [&](const Node& node) { return node.op == &op; });
  };
  EXPECT_EQ(count(build("resnet50", kImageNet), ops::kOverlappingMaxPool), 1);
  EXPECT_EQ(count(build("resnet50"), ops::kOverlappingMaxPool), 0);
  EXPECT_EQ(count(build("resnet50"), ops::kAdd), 16);
  EXPECT_EQ(count(build("resnet110"), ops::kAdd), 54);
  EXPECT_EQ(count(build("mobilenet_v2"), ops::kAdd), 10);
  EXPECT_EQ(count(build("vgg16_bn"), ops::kMaxPool), 5 - 1);
  EXPECT_EQ(count(build("vgg16_bn", kImageNet), ops::kMaxPool), 5);
  EXPECT_EQ(count(build("squeezenet"), ops::kConcat), 8);
  EXPECT_EQ(count(build("inception_small"), ops::kConcat), 7);
  EXPECT_EQ(count(build("inception_small"), ops::kAveragePool), 5);
}

}  // namespace
}  // namespace mantissa
