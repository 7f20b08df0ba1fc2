#include "networks/untrained.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/models.h"

namespace mantissa {
namespace {

Graph lenet() {
  auto graph = build_model("lenet5", {.channel_means = {0}});
  EXPECT_TRUE(graph.ok());
  return std::move(*graph);
}

std::vector<std::string> untrained(const std::string& patterns) {
  Graph graph = lenet();
  const Status status = leave_untrained(patterns, graph);
  EXPECT_TRUE(status.ok()) << status.error().message;
  std::vector<std::string> names;
  for (const Parameter& parameter : graph.parameters) {
    if (!parameter.trained) names.push_back(parameter.name);
  }
  return names;
}

std::string refusal(const std::string& patterns, Graph graph = lenet()) {
  const Status status = leave_untrained(patterns, graph);
  return status.ok() ? "" : status.error().message;
}

using Names = std::vector<std::string>;

TEST(Untrained, PatternsFitWholeNames) {
  const Names conv1 = {"conv1.weights", "conv1.bias"};
  EXPECT_EQ(untrained(""), Names());
  for (const char* patterns : {"conv1.*", "conv1*", "conv1.weights,conv1.bias", "c*1.*,conv1.bias",
                               "*v1*", "con*.*s,conv1.bias,conv2.bias"}) {
    const Names found = untrained(patterns);
    ASSERT_GE(found.size(), 2U) << patterns;
    EXPECT_TRUE(std::equal(conv1.begin(), conv1.end(), found.begin())) << patterns;
  }
  EXPECT_EQ(untrained("conv*").size(), 4U);
}

TEST(Untrained, ErrorsSayWhatWouldFit) {
  EXPECT_NE(refusal("conv").find("'conv' fits no parameter of lenet5; it has conv1.weights, "),
            std::string::npos);
  EXPECT_NE(refusal("conv1.*,").find("'' fits no parameter"), std::string::npos);
  EXPECT_NE(refusal("*x").find("'*x' fits no parameter"), std::string::npos);
  EXPECT_EQ(refusal("conv1.weights"),
            "freeze: 'conv1.weights' fits and 'conv1.bias' does not; a node trains all of its "
            "parameters or none: conv1.*");
  EXPECT_EQ(refusal("*"),
            "freeze: '*' leaves nothing of lenet5 to train; leave out its last layers");
}

TEST(Untrained, StatisticsDoNotCount) {
  auto graph = build_model("resnet8", {.channel_means = {0}});
  ASSERT_TRUE(graph.ok());
  EXPECT_NE(refusal("stem_norm.running*", *graph).find("fits no parameter"), std::string::npos);
  EXPECT_EQ(refusal("stem_norm.*", *graph), "");
}

}  // namespace
}  // namespace mantissa
