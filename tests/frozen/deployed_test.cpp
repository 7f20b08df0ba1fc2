// Exported networks: the results of their models, and that their files load back bit for bit.
// tests/long/onnx/onnx_export shows that ONNX Runtime computes rescaled layers to the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>

#include "base/test_folder.h"
#include "infer/deployed_network.h"
#include "onnx/evaluate/evaluate.h"
#include "onnx/files/writer.h"
#include "tests/frozen/frozen.h"
#include "tests/networks.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kBatchSize = 32;
constexpr int64_t kPictures = 24;

// Batch norms that follow no layer but a ReLU, a pool or a sum. One is read by a ReLU alone.
Graph with_batch_norms_alone() {
  Layers net("alone", fashion_options());
  net.convolution("conv1", 8, 5, 2, 2, true);
  net.relu("relu1");
  net.batch_norm("norm1");
  net.convolution("conv2", 8, 3, 1, 1, true);
  const int left = net.add(ops::kMaxPool, "pool", {{"window", 2}});
  const int right = net.batch_norm("norm2");
  net.sum("add", left, right);
  net.batch_norm("norm3");
  net.relu("relu3");
  net.add(ops::kFlatten, "flatten");
  net.batch_norm("norm4");
  return finished(net);
}

// Flattened images, whose order in ONNX is another one, with functions before the next layer.
Graph with_flattened_images() {
  Layers net("flattened", fashion_options());
  net.convolution("conv1", 6, 5, 4, 0, true);
  net.add(ops::kFlatten, "flatten1");
  const int left = net.hard_swish("swish");
  const int right = net.tanh("tanh");
  net.sum("add", left, right);
  const int joined = net.concat("concat", {net.last(), left});
  net.continue_from(joined);
  net.reshape("reshape", 6, 6, 12);
  net.convolution("logits", 10, 3, 1, 0, true);
  net.reshape("vector", 0, 0, 160);
  return finished(net);
}

// A mean with a fraction is subtracted from pixels, as in networks of ONNX files.
Graph with_a_mean() {
  Layers net("mean", fashion_options());
  net.convolution("conv1", 8, 5, 4, 2, true);
  net.relu("relu1");
  net.add(ops::kFlatten, "flatten");
  Graph graph = finished(net);
  for (Node& node : graph.nodes) {
    if (node.op != &ops::kNormaliseInput) continue;
    replace_op(node, ops::kNormaliseInput, {{"means", WholeList{4779621}}, {"fraction_bits", 16}});
  }
  return graph;
}

// A difference, and maxima over all axes.
Graph with_maxima() {
  Layers net("maxima", fashion_options());
  net.convolution("conv1", 8, 5, 4, 2, true);
  const int first = net.last();
  net.convolution("conv2", 8, 3, 1, 1, true);
  const int difference = net.join(ops::kSubtract, "difference", {first, net.last()});
  std::vector<int> parts = {net.join(ops::kReduceMax, "largest", {difference})};
  for (const char* over : {"height", "width", "channels"}) {
    net.join(ops::kReduceMax, over, {difference}, {{"over", over}});
    parts.push_back(net.add(ops::kFlatten, std::string(over) + "_flat"));
  }
  net.concat("parts", parts);
  return finished(net);
}

// Layers that float32 or float64 computes to the same bits: no value is rounded elsewhere than in
// the network.
Graph with_exact_forms() {
  Layers net("exact", fashion_options());
  net.convolution("conv1", 6, 3, 2, 1, true);
  net.relu("relu1");
  net.add(ops::kTransposedConvolution, "up",
          {{"channels", 5}, {"kernel", 3}, {"stride", 2}, {"padding", 1}, {"output_padding", 1}});
  const int large = net.last();
  net.convolution("conv2", 5, 3, 2, 1, true);
  net.add(ops::kBilinearResize, "interpolated", {{"height", 28}, {"width", 28}});
  net.sum("sum", large, net.last());
  net.convolution("conv3", 12, 5, 4, 1, true);
  const int bent = net.tanh("bent");
  std::vector<int> parts;
  const auto reduce = [&](const Op& op, const std::string& name, const char* over) {
    net.join(op, name, {bent}, {{"over", over}});
    parts.push_back(net.add(ops::kFlatten, name + "_flat"));
  };
  reduce(ops::kReduceMean, "rows", "height");
  reduce(ops::kReduceSum, "columns", "width");
  reduce(ops::kReduceMean, "gray", "channels");
  parts.push_back(net.join(ops::kReduceMean, "mean", {bent}));
  net.continue_from(bent);
  net.add(ops::kReshape, "positions", {{"width", 49}, {"channels", 12}});
  const int stream = net.add(ops::kLinear, "wide", {{"channels", 12}, {"least_bits", 16}});
  const int curve = net.join(ops::kGelu, "gelu", {stream});
  net.join(ops::kAdd, "added", {stream, curve}, {{"least_bits", 16}});
  net.join(ops::kReverse, "turned", {net.last()});
  net.add(ops::kSlice, "chosen", {{"channels", 12}, {"position", 3}});
  parts.push_back(net.add(ops::kFlatten, "chosen_flat"));
  net.concat("parts", parts);
  return finished(net);
}

std::vector<NamedNetwork> all_networks() {
  std::vector<NamedNetwork> list = networks_of_all_operators();
  list.push_back({"maxima", with_maxima});
  list.push_back({"exact", with_exact_forms});
  list.push_back({"gelu", with_function<&Layers::gelu>});
  list.push_back({"silu", with_function<&Layers::silu>});
  list.push_back({"alone", with_batch_norms_alone});
  list.push_back({"flattened", with_flattened_images});
  list.push_back({"mean", with_a_mean});
  return list;
}

FrozenNetwork frozen(const Graph& network) {
  Harness harness({.batch_size = kBatchSize, .micro_batch_size = kBatchSize, .threads = 2},
                  network);
  harness.train(8);
  const Program calibration = calibration_program(harness.graph(), {}, kBatchSize, false);
  auto arena = AlignedMemory::create(freeze_bytes(calibration));
  FrozenDescription description;
  description.network = network;
  description.options = fashion_options();
  description.class_names = fashion_mnist().info.target.names;
  auto result = freeze_with(harness, calibration, arena->span(), description, 2 * kBatchSize);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return std::move(*result);
}

Examples pictures() { return examples_from(0, kPictures, examples_of(fashion_mnist().test)); }

std::vector<float> logits_of(FrozenNetwork& network) {
  ThreadPool pool(2);
  const auto found = classify(network, pictures(), pool, best_isa());
  EXPECT_TRUE(found.ok());
  std::vector<float> logits;
  for (const int32_t mantissa : found->mantissas) {
    logits.push_back(std::ldexp(static_cast<float>(mantissa), found->exponent));
  }
  return logits;
}

std::vector<float> logits_of(const onnx::ModelData& model) {
  ThreadPool pool(2);
  const onnx::TensorData pixels{
      "pixels",
      onnx::ElementType::kUint8,
      {kPictures, 1, 28, 28},
      std::as_bytes(std::span(fashion_mnist().test.pixels())).first(kPictures * 28 * 28),
      nullptr};
  const auto outputs = onnx::evaluate(model, {{"pixels", pixels}}, pool);
  EXPECT_TRUE(outputs.ok()) << (outputs.ok() ? "" : outputs.error().message);
  if (!outputs.ok()) return {};
  std::vector<float> logits((*outputs)[0].bytes.size() / sizeof(float));
  std::memcpy(logits.data(), (*outputs)[0].bytes.data(), (*outputs)[0].bytes.size());
  return logits;
}

bool has_rescaled_layer(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.op == &ops::kRescaledConvolution || node.op == &ops::kRescaledLinear;
  });
}

constexpr float kNear = 0.05F;  // of the largest logit

// Networks of which float32 computes a part, and the layers that the command names.
const std::map<std::string, std::string> kNearNetworks = {
    {"picture_norms", "node 'groups' (group_norm) is computed in float32 (and 1 node more: "
                      "'instance'); node 'layer' (layer_norm)"},
    {"attention", "node 'attention' (attention) is computed in float32"},
    {"adapters", "node 'attention' (attention) is computed in float32"},
    {"patches", "(rotary) is computed in float32"},
    {"heads", "node 'query_norm' (rms_norm) is computed in float32 (and 1 node more: "
              "'key_norm'); node 'query_turned' (rotary)"},
    {"biased", "node 'picture' (attention) is computed in float32 (and 1 node more: 'sequence2')"},
    {"recurrent", "node 'lstm' (lstm) is computed in float32"},
    {"directions", "(gru) is computed in float32 (and 1 node more"}};

class Deployed : public ::testing::TestWithParam<NamedNetwork> {};

// Sums of layers with multipliers that are no powers of two may round in float. So a value may
// become its neighbour, which moves logits a little. Norms, attention and recurrent layers are
// near, too, and the command says so; nothing else is.
TEST_P(Deployed, ComputesTheSame) {
  FrozenNetwork network = frozen(GetParam().build());
  const auto near = kNearNetworks.find(GetParam().name);
  const bool is_near = near != kNearNetworks.end();
  const std::vector<float> expected = logits_of(network);
  float most = 0;
  for (const float logit : expected) most = std::max(most, std::abs(logit));
  ASSERT_GT(most, 0.0f);
  const float tolerance = is_near || has_rescaled_layer(network.graph) ? kNear * most : 0.0f;
  for (const auto target : {onnx::ExportTarget::kOnnxRuntime, onnx::ExportTarget::kPortable}) {
    const auto exported = export_frozen(network, target);
    ASSERT_TRUE(exported.ok()) << exported.error().message;
    EXPECT_EQ(exported->is_near, is_near);
    std::string notes;
    for (const std::string& note : exported->notes) notes += note + "\n";
    EXPECT_EQ(notes.find("results are near") != std::string::npos, is_near) << notes;
    if (is_near) {
      EXPECT_NE(notes.find(near->second), std::string::npos) << notes;
    }
    const std::vector<float> found = logits_of(exported->model);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance) << i;
  }
}

TEST_P(Deployed, ComesBackFromItsFile) {
  const FrozenNetwork network = frozen(GetParam().build());
  const TestFolder folder;
  for (const auto target : {onnx::ExportTarget::kOnnxRuntime, onnx::ExportTarget::kPortable}) {
    const auto exported = export_frozen(network, target);
    ASSERT_TRUE(exported.ok()) << exported.error().message;
    ASSERT_TRUE(onnx::write_model(folder / "a.onnx", exported->model).ok());
    const auto loaded = load_frozen(folder / "a.onnx");
    if (exported->is_near) {
      ASSERT_FALSE(loaded.ok());
      EXPECT_NE(loaded.error().message.find("it does not load back"), std::string::npos);
      continue;
    }
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(loaded->state.sha256(StateGroup::kPredictor),
              network.state.sha256(StateGroup::kPredictor));
    EXPECT_EQ(to_string(loaded->graph), to_string(network.graph));
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Deployed, ::testing::ValuesIn(all_networks()),
                         [](const auto& each) { return each.param.name; });

// One bit is another, in bytes all over the file; or the file ends there.
TEST(DeployedFile, IsRefusedWhereItWasChanged) {
  const FrozenNetwork network = frozen(with_batch_norms_alone());
  const auto exported = export_frozen(network, onnx::ExportTarget::kOnnxRuntime);
  ASSERT_TRUE(exported.ok());
  const std::string bytes = onnx::model_bytes(exported->model).value();
  const TestFolder folder;
  for (size_t at = 0; at < bytes.size(); at += 211) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
    put_file(folder / "a.onnx", changed);
    EXPECT_FALSE(load_frozen(folder / "a.onnx").ok()) << at;
    put_file(folder / "a.onnx", bytes.substr(0, at));
    EXPECT_FALSE(load_frozen(folder / "a.onnx").ok()) << at;
  }
  put_file(folder / "a.onnx", bytes);
  EXPECT_TRUE(load_frozen(folder / "a.onnx").ok());
}

}  // namespace
}  // namespace mantissa::testing
