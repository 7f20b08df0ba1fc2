// Networks as JSON: they are read back as they were written. Errors name their place, and what is
// allowed.
#include "models/json/network_json.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "models/models.h"
#include "ops/loss.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

std::string difference(const Graph& a, const Graph& b) {
  if (a.name != b.name) return "name";
  if (a.inputs != b.inputs || a.outputs != b.outputs || a.losses != b.losses) return "ends";
  if (a.values.size() != b.values.size()) return "number of values";
  for (size_t i = 0; i < a.values.size(); ++i) {
    const Value &x = a.values[i], &y = b.values[i];
    if (x.name != y.name || x.shape != y.shape || x.producer != y.producer || x.port != y.port ||
        x.element != y.element || x.type != y.type || x.exponent != y.exponent) {
      return "value " + x.name;
    }
  }
  if (a.nodes.size() != b.nodes.size()) return "number of nodes";
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    const Node &x = a.nodes[i], &y = b.nodes[i];
    if (x.name != y.name || x.op != y.op || x.attributes != y.attributes || x.inputs != y.inputs ||
        x.outputs != y.outputs || x.parameters != y.parameters) {
      return "node " + x.name;
    }
  }
  if (a.parameters.size() != b.parameters.size()) return "number of parameters";
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    const Parameter &x = a.parameters[i], &y = b.parameters[i];
    if (x.name != y.name || x.shape != y.shape || x.storage != y.storage ||
        x.initialiser != y.initialiser || x.fan_in != y.fan_in || x.trained != y.trained ||
        x.decays != y.decays || x.rate_factor != y.rate_factor) {
      return "parameter " + x.name;
    }
  }
  return "";
}

void expect_round_trip(const Graph& graph) {
  const std::string text = to_json(graph);
  const Result<Graph> again = parse_network(text);
  ASSERT_TRUE(again.ok()) << graph.name << ": " << again.error().message;
  EXPECT_EQ(difference(graph, *again), "") << graph.name;
  EXPECT_EQ(to_json(*again), text) << graph.name;
}

TEST(NetworkJson, GivesBackEveryBuiltInNetwork) {
  const ModelOptions options[] = {
      {},
      {.channel_means = {73}},
      {.height = 32, .width = 32, .channels = 3, .classes = 100, .label_smoothing = 0.1},
      {.height = 65,
       .width = 96,
       .channels = 4,
       .width_multiplier = 0.37,
       .channel_means = {1, 2, 3, 255},
       .loss = ops::LossKind::kSquaredError},
      {.height = 224, .width = 224, .channels = 3, .classes = 1000, .width_multiplier = 0.125}};
  int networks = 0;
  for (const ModelInfo& info : models()) {
    for (const ModelOptions& each : options) {
      const Result<Graph> graph = build_model(info.name, each);
      ASSERT_TRUE(graph.ok()) << graph.error().message;
      expect_round_trip(*graph);
      ++networks;
    }
  }
  EXPECT_EQ(networks, 90);
}

// Two inputs of indices, one that nothing reads, a shared layer, several losses and results, reals
// and texts among attributes, properties of parameters.
Graph unusual() {
  GraphBuilder builder("unusual");
  const int ids = builder.add_input("ids", Shape{7}, Element::kIndex);
  EXPECT_EQ(ids, 0);
  const int pixels = builder.add_input("image", Shape{6, 5, 2}, Element::kMantissa);
  int value = builder.add(ops::kNormaliseInput, "normalise", {pixels}, {{"means", WholeList{9}}});
  value = builder.add(ops::kLeakyRelu, "leaky", {value}, {{"slope", 0.1 + 0.2}});
  value = builder.add(ops::kDropout, "drop/1", {value}, {{"probability", 1.0 / 3}});
  value = builder.add(ops::kConvolution, "conv.a", {value},
                      {{"channels", 2}, {"padding", 1}, {"bias", 0}});
  const int first = value;
  value = builder.add_sharing(first, ops::kConvolution, "conv.b", {value},
                              {{"channels", 2}, {"padding", 1}, {"bias", 0}});
  const int labels = builder.add_input("labels", Shape{}, Element::kIndex);
  builder.add_numbers("numbers", Shape{3, 2}, -7);
  value = builder.add(ops::kFlatten, "flat", {value});
  const int a = builder.add(ops::kLinear, "head1", {value}, {{"channels", 3}});
  const int b = builder.add(ops::kLinear, "head2", {value}, {{"channels", 3}, {"classifier", 1}});
  builder.add_loss(ops::kSoftmaxCrossEntropy, "loss1", {a, labels}, {{"smoothing", 1e-3}});
  builder.add_loss(ops::kMeanSquaredError, "loss2", {b, labels});
  auto graph = builder.finish(std::vector<int>{b, a});
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  graph->parameters[0].rate_factor = 0.1;
  graph->parameters[0].decays = false;
  graph->parameters[1].trained = graph->parameters[2].trained = false;
  return std::move(*graph);
}

TEST(NetworkJson, GivesBackWhatBuiltInNetworksLack) {
  const Graph graph = unusual();
  expect_round_trip(graph);
  const std::string text = to_json(graph);
  for (const char* part :
       {R"("shares": "conv.a")", R"("slope": 0.30000000000000004)", R"("bias": false)",
        R"("weights": {"decays": false, "rate_factor": 0.1})",
        R"("weights": {"trained": false})"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

// A run's identity is computed from this text.
TEST(NetworkJson, TheTextStays) {
  GraphBuilder builder("small", Shape{4, 4, 1});
  int value = builder.add(ops::kNormaliseInput, "normalise", {builder.input()});
  value = builder.add(ops::kFlatten, "flatten", {value});
  value = builder.add(ops::kLinear, "classifier", {value}, {{"channels", 3}, {"classifier", 1}});
  const Graph graph = *ops::with_loss(*builder.finish(value), ops::LossKind::kCrossEntropy, 0.1);
  EXPECT_EQ(to_json(graph), R"({
  "format": "mantissa network 1",
  "name": "small",
  "nodes": [
    {"name": "pixels", "op": "input", "type": "uint8", "shape": [4, 4, 1]},
    {"name": "normalise", "op": "normalise_input", "inputs": ["pixels"], "shape": [4, 4, 1]},
    {"name": "flatten", "op": "flatten", "inputs": ["normalise"], "shape": [16]},
    {"name": "classifier", "op": "linear", "inputs": ["flatten"], "attributes": {"channels": 3, "classifier": true}, "shape": [3]},
    {"name": "labels", "op": "input", "type": "int32", "shape": []},
    {"name": "loss", "op": "softmax_cross_entropy", "inputs": ["classifier", "labels"], "attributes": {"smoothing": 0.1}, "shape": []}
  ],
  "outputs": ["classifier"],
  "losses": ["loss"]
}
)");
}

// A network with given lines: line 6 and, for a second node, line 7.
std::string with_lines(const std::string& six, const std::string& seven = "",
                       const std::string& rest = R"("outputs": ["b"])") {
  return "{\"format\": \"mantissa network 1\",\n\"name\": \"n\",\n\"nodes\": [\n"
         "{\"name\": \"pixels\", \"op\": \"input\", \"type\": \"uint8\", \"shape\": [4, 4, 1]},\n"
         "{\"name\": \"a\", \"op\": \"normalise_input\", \"inputs\": [\"pixels\"]},\n" +
         six + (seven.empty() ? "" : ",\n" + seven) + "],\n" + rest + "}";
}

std::string error_of(const std::string& text) {
  const Result<Graph> graph = parse_network(text);
  return graph.ok() ? "accepted" : graph.error().message;
}

constexpr const char* kGood = R"({"name": "b", "op": "relu", "inputs": ["a"], "shape": [4, 4, 1]})";

TEST(NetworkJson, ErrorsSayLineNodeAndWhatIsAllowed) {
  EXPECT_EQ(error_of(with_lines(kGood)), "accepted");
  const std::pair<const char*, const char*> cases[] = {
      {R"({"name": "b", "op": "rule", "inputs": ["a"]})",
       "line 6: node 'b': there is no operator \"rule\"; there are input, normalise_input, "},
      {R"({"name": "b", "op": "update_sgd", "inputs": ["a"]})",
       "line 6: node 'b': there is no operator \"update_sgd\"; there are "},
      {R"({"name": "b", "op": "convolution", "inputs": ["a"], "attributes": {"chanels": 3}})",
       "line 6: node 'b' (convolution): has no attribute 'chanels'; it has channels, kernel, "},
      {R"({"name": "b", "op": "convolution", "inputs": ["a"], "attributes": {"channels": 2.5}})",
       "line 6: node 'b' (convolution): attribute 'channels' is 2.5; wants a whole number"},
      {R"({"name": "b", "op": "linear", "inputs": ["a"], "attributes": {"channels": true}})",
       "line 6: node 'b': attribute \"channels\" is neither true nor false"},
      {R"({"name": "b", "op": "linear", "inputs": ["a"]})",
       "line 6: node 'b' (linear): wants channels"},
      {R"({"name": "b", "op": "relu", "inputs": ["a"],
           "shape": [4, 4]})",
       "line 7: node 'b' (relu): makes [4, 4, 1], not [4, 4]; the shape may be left out"},
      {R"({"name": "b", "op": "convolution", "inputs": ["a"],
 "attributes": {"channels": 2, "kernel": 5}})",
       "line 6: node 'b' (convolution): a kernel of 5 does not fit an image of [4, 4, 1]"},
      {R"({"name": "b", "op": "relu", "inputs": ["c"]})",
       "line 6: node 'b' reads \"c\", which no input or node before it makes"},
      {R"({"name": "b", "op": "relu", "inputs": ["b"]})",
       "line 6: node 'b' reads \"b\", which line 6 makes: a node stands after those that it reads"},
      {R"({"name": "b", "op": "relu"})", "line 6: node 'b' wants \"inputs\""},
      {R"({"name": "b", "op": "relu", "inputs": "a"})",
       "line 6: \"inputs\" of node 'b' wants a list, [...]"},
      {R"({"name": "b", "op": "relu", "inputs": [3]})",
       "line 6: \"inputs\" of node 'b' wants names only"},
      {R"({"name": "b", "op": "relu", "inputs": ["a", "a"]})",
       "line 6: node 'b' (relu): wants one input"},
      {R"({"name": "b", "op": "relu", "inputs": []})", "line 6: node 'b' (relu): wants one input"},
      {R"({"name": "b", "op": "relu", "inputs": ["pixels"]})",
       "line 6: node 'b' (relu): input 0, 'pixels', is pixels; wants mantissas"},
      {R"({"name": "b", "op": "normalise_input", "inputs": ["a"]})",
       "line 6: node 'b' (normalise_input): input 0, 'a', is mantissas; wants pixels"},
      {R"({"name": "b", "op": "relu", "input": ["a"]})",
       "line 6: node 'b' has no \"input\"; it may have name, op, inputs, attributes, shares, "
       "parameters, shape, shapes"},
      {R"({"name": "a", "op": "relu", "inputs": ["a"]})",
       "line 6: there is a value 'a' already; names stand for one each"},
      {R"({"name": "a b", "op": "relu", "inputs": ["a"]})",
       "line 6: \"a b\" is no name: 1 to 100 letters, digits and _ - . / are"},
      {R"({"op": "relu", "inputs": ["a"]})", "line 6: a node wants \"name\""},
      {R"("relu")", "line 6: a node wants an object, {...}"},
      {R"({"name": "b", "op": "relu", "inputs": ["a"], "shares": "a"})",
       "line 6: node 'b': relu has no parameters to share"},
      {R"({"name": "b", "op": "linear", "inputs": ["a"], "attributes": {"channels": 1}, "shares": "c"})",
       "line 6: node 'b': \"shares\" wants a node before it; there is no \"c\" there"},
      {R"({"name": "b", "op": "linear", "inputs": ["a"], "attributes": {"channels": 1}, "shares": "a"})",
       "line 6: node 'b' (linear): cannot use the parameters of 'a'"},
      {R"({"name": "b", "op": "linear", "inputs": ["a"], "attributes": {"channels": 1}, "parameters": {"weight": {}}})",
       "line 6: \"parameters\" of node 'b' has no \"weight\"; it may have weights, bias"},
      {R"({"name": "b", "op": "linear", "inputs": ["a"], "attributes": {"channels": 1}, "parameters": {"bias": {"rate_factor": 0}}})",
       "line 6: parameter 'bias' of node 'b': \"rate_factor\" wants a number above 0, at most "
       "1000"},
      {R"({"name": "b", "op": "batch_norm", "inputs": ["a"], "parameters": {"running_mean": {"trained": true}}})",
       "line 6: parameter 'running_mean' of node 'b' is never trained"},
      {R"({"name": "b", "op": "input", "type": "float", "shape": [1]})",
       "line 6: input 'b': there is no type \"float\"; there are uint8 (pixels), int32 "
       "(indices) and int16 (numbers)"},
      {R"({"name": "b", "op": "input", "type": "int32", "shape": [0]})",
       "line 6: \"shape\" of input 'b' is [0]; dimensions are 1 or more, and elements at most "
       "2^36"},
      {R"({"name": "b", "op": "input", "type": "int32", "shape": [1,1,1,1,1,1]})",
       "line 6: \"shape\" of input 'b' has 6 dimensions; at most 5 are possible"},
  };
  for (const auto& [node, message] : cases) {
    const std::string error = error_of(with_lines(node));
    EXPECT_EQ(error.substr(0, std::string(message).size()), message) << node;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

// A node's stage is no part of the network.
TEST(NetworkJson, NodesMayHaveStages) {
  const auto with = [](const std::string& first, const std::string& second,
                       const std::string& third) {
    const auto node = [](const char* name, const char* reads, const std::string& stage) {
      return std::string(R"(    {"name": ")") + name + R"(", "op": "relu", "inputs": [")" + reads +
             "\"]" + (stage.empty() ? "" : ", \"stage\": " + stage) + "}";
    };
    return R"({"format": "mantissa network 1", "name": "n", "nodes": [
    {"name": "pixels", "op": "input", "type": "uint8", "shape": [4, 4, 1]},
    {"name": "normalise", "op": "normalise_input", "inputs": ["pixels"]},
)" + node("a", "normalise", first) +
           ",\n" + node("b", "a", second) + ",\n" + node("c", "b", third) +
           "],\n  \"outputs\": [\"c\"]}";
  };
  const auto stages = [&](const std::string& a, const std::string& b, const std::string& c) {
    const auto network = parse_network_text(with(a, b, c));
    if (!network.ok()) return network.error().message;
    EXPECT_EQ(network_sha256(network->graph), network_sha256(*parse_network(with("", "", ""))));
    std::string all;
    for (const std::string& name : network->stages) all += (all.empty() ? "" : " ") + name;
    return all;
  };
  EXPECT_EQ(stages("", "", ""), "");
  EXPECT_EQ(stages("1", "1", "2"), "normalise c");
  EXPECT_EQ(stages("2", "", "3"), "normalise a c");
  EXPECT_EQ(stages("", "2", "1"),
            "line 6: node 'c': is of stage 1 and stands behind nodes of stage 2: stages follow the "
            "order of the nodes");
  EXPECT_EQ(stages("", "3", ""), "line 5: node 'b': is of stage 3, and no node is of stage 2");
  EXPECT_EQ(stages("0", "", ""), "line 4: node 'a': \"stage\" is a whole number from 1");
  EXPECT_EQ(stages("\"x\"", "", ""), "line 4: node 'a': \"stage\" is a whole number from 1");
}

TEST(NetworkJson, ErrorsOfTheWhole) {
  EXPECT_EQ(error_of("[]"), "line 1: the network wants an object, {...}");
  EXPECT_EQ(error_of("{}"), "line 1: the network wants \"format\"");
  EXPECT_EQ(
      error_of("{\"format\": \"mantissa network 2\"}"),
      "line 1: the format is \"mantissa network 2\"; this program reads \"mantissa network 1\"");
  EXPECT_EQ(error_of(with_lines(kGood, "", R"("outputs": [])")),
            "line 7: \"outputs\" wants the name of a value");
  EXPECT_EQ(error_of(with_lines(kGood, "", R"("outputs": ["z"])")),
            "line 7: there is no value \"z\"");
  EXPECT_EQ(error_of(with_lines(kGood, "", R"("outputs": ["b"], "losses": ["l"])")),
            "line 7: there is no node \"l\"");
  EXPECT_EQ(error_of(with_lines(kGood, "", R"("outputs": ["b"], "losses": ["b"])")),
            "line 6: node 'b' (relu): is no loss");
  // A cycle.
  EXPECT_EQ(
      error_of(with_lines(R"({"name": "b", "op": "add", "inputs": ["a", "c"]})",
                          R"({"name": "c", "op": "relu", "inputs": ["b"]})")),
      "line 6: node 'b' reads \"c\", which line 7 makes: a node stands after those that it reads");
}

TEST(NetworkJson, HugeNetworksAreRefusedFast) {
  const auto start = std::chrono::steady_clock::now();
  for (const char* shape : {"[4611686018427387904, 4611686018427387904, 3]",
                            "[65536, 65536, 65536]", "[-1, 4611686018427387904, 1]"}) {
    EXPECT_NE(error_of(R"({"format": "mantissa network 1", "name": "n", "nodes": [{"name": "p", )"
                       R"("op": "input", "type": "uint8", "shape": )" +
                       std::string(shape) + R"(}], "outputs": ["p"]})")
                  .find("elements at most 2^36"),
              std::string::npos);
  }
  // Each fits alone; both together do not.
  EXPECT_NE(
      error_of(
          with_lines(
              R"({"name": "b", "op": "pad", "inputs": ["a"], "attributes": {"top": 200000, "left": 200000}})",
              R"({"name": "c", "op": "relu", "inputs": ["b"]})"))
          .find("at most 2^36 are possible"),
      std::string::npos);
  for (
      const char* huge :
      {R"({"name": "b", "op": "convolution", "inputs": ["a"], "attributes": {"channels": 2147483648, "kernel": 2147483648, "padding": 2147483648}})",
       R"({"name": "b", "op": "convolution", "inputs": ["a"], "attributes": {"channels": 2147483648, "padding": 2147483648}})",
       R"({"name": "b", "op": "linear", "inputs": ["a"], "attributes": {"channels": 9223372036854775807}})",
       R"({"name": "b", "op": "reshape", "inputs": ["a"], "attributes": {"channels": 4611686018427387904, "height": 4, "width": 4611686018427387904}})"}) {
    EXPECT_EQ(error_of(with_lines(huge)).substr(0, 17), "line 6: node 'b' ") << huge;
  }
  std::string nodes;
  for (int i = 0; i < 1'000'000; ++i) nodes += "{},";
  EXPECT_EQ(error_of(with_lines(nodes + "{}")), "line 6: too many values");
  nodes.resize(3 * 10'000);
  EXPECT_EQ(error_of(with_lines(nodes + "{}")),
            "line 3: the network has 10003 nodes; at most 5000 are possible");
  EXPECT_EQ(error_of(std::string(kMostNetworkBytes + 1, ' ')),
            "line 1: the network has more than 4 MiB of text");
  EXPECT_LT(error_of(with_lines(R"({"name": ")" + std::string(1'000'000, 'x') + "\"}")).size(),
            700u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace mantissa
