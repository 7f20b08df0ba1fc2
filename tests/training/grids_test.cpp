// Grids differ from tensor to tensor: `ends` gives the first and the last layers more bits.
#include "plan/programs/grids.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "numerics/rounding.h"
#include "tests/harness.h"

namespace mantissa::testing {
namespace {

Graph network(const char* name) {
  auto graph = build_model(name, {});
  EXPECT_TRUE(graph.ok());
  return std::move(*graph);
}

int bits_of_parameter(const Graph& graph, const Grids& grids, const std::string& name) {
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    if (graph.parameters[i].name == name) return grids.parameters[i].bits;
  }
  ADD_FAILURE() << name;
  return 0;
}

int bits_of_input(const Graph& graph, const Grids& grids, const std::string& node) {
  for (const Node& n : graph.nodes) {
    if (n.name == node) return grids.values[n.inputs[0]].bits;
  }
  ADD_FAILURE() << node;
  return 0;
}

TEST(Grids, EndsHaveBitsOfTheirOwn) {
  const Graph graph = network("lenet5");
  const Grids few = grids(graph, *parse_format("bfp:w=4,a=3,ends=8"));
  EXPECT_EQ(bits_of_parameter(graph, few, "conv1.weights"), 8);
  EXPECT_EQ(bits_of_parameter(graph, few, "conv2.weights"), 4);
  EXPECT_EQ(bits_of_parameter(graph, few, "linear2.weights"), 4);
  EXPECT_EQ(bits_of_parameter(graph, few, "classifier.weights"), 8);
  EXPECT_EQ(bits_of_parameter(graph, few, "conv1.bias"), 16);
  EXPECT_EQ(bits_of_input(graph, few, "conv1"), 8);
  EXPECT_EQ(bits_of_input(graph, few, "conv2"), 3);
  // The ReLU keeps the bits that linear2 writes.
  EXPECT_EQ(bits_of_input(graph, few, "classifier"), 8);
}

TEST(Grids, ResidualNetworksHaveOneFirstAndOneLastLayer) {
  const Graph graph = network("resnet8");
  const Grids few = grids(graph, *parse_format("bfp:w=4,ends=8"));
  int wide = 0;
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    if (graph.parameters[i].storage != Storage::kWeights) continue;
    wide += few.parameters[i].bits == 8;
  }
  EXPECT_EQ(wide, 2);
}

// Every mantissa of the state has its parameter's bits, and some need all of them.
TEST(Grids, TrainedWeightsKeepTheirBits) {
  Harness harness({.model = "lenet5", .format = "bfp:w=4,a=4,ends=8"});
  harness.train(5);
  const StateLayout& layout = harness.state().layout();
  const Grids few = grids(harness.graph(), *parse_format("bfp:w=4,a=4,ends=8"));
  for (size_t i = 0; i < harness.graph().parameters.size(); ++i) {
    const Parameter& parameter = harness.graph().parameters[i];
    if (parameter.storage != Storage::kWeights) continue;
    const auto* mantissas = harness.state().data<int8_t>(layout.parameters[i].mantissa);
    int largest = 0;
    for (int64_t k = 0; k < parameter.shape.count(); ++k) {
      largest = std::max(largest, std::abs(int{mantissas[k]}));
    }
    const int most = (1 << (few.parameters[i].bits - 1)) - 1;
    EXPECT_LE(largest, most) << parameter.name;
    EXPECT_GT(largest, most / 2) << parameter.name;
  }
}

TEST(Grids, EndsChangeTheBitsOfNothingElse) {
  const auto hash = [](const char* format) {
    Harness harness({.model = "mlp", .format = format});
    harness.train(3);
    return harness.state().sha256(StateGroup::kParameter);
  };
  EXPECT_EQ(hash("bfp:ends=8"), hash("bfp8"));
  EXPECT_NE(hash("bfp:w=4,ends=8"), hash("bfp:w=4"));
}

TEST(Grids, FloatsHaveNoExponents) {
  const Graph graph = network("lenet5");
  for (const Grid& grid : grids(graph, *parse_format("fp32")).values) {
    EXPECT_EQ(grid.storage(), DataType::kFloat);
  }
}

}  // namespace
}  // namespace mantissa::testing
