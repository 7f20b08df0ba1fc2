// Batch norms are put after convolutions that have taken theirs in. The network computes the same,
// with a running variance of 1 in every channel.
#include "start/insert_batch_norm.h"

#include "tests/onnx/onnx_models.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kSide = 8, kImages = 100;

ExampleSet example_set() {
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < kImages * kSide * kSide; ++i) {
    pixels.push_back(static_cast<uint8_t>(255.99 * uniform("pictures", i)));
  }
  return picture_set({kSide, kSide, 1}, std::move(pixels), std::vector<Label>(kImages));
}

// A residual block as exporters fold it, a gate of one pixel, and a linear layer.
std::string folded(Model& m) {
  std::string v = m.conv("c1", "x", {6, 1, 3, 3}, {1, 1, 1, 1});
  const std::string first = m.add("Relu", "r1", {v});
  v = m.conv("c2", first, {6, 6, 3, 3}, {1, 1, 1, 1});
  v = m.add("Add", "sum", {v, first});
  v = m.add("Relu", "r2", {v});
  std::string g = m.add("GlobalAveragePool", "g0", {v});
  g = m.conv("gate", g, {6, 6, 1, 1}, {0, 0, 0, 0});
  g = m.add("Sigmoid", "g1", {g});
  v = m.add("Mul", "gated", {v, g});
  v = m.conv("depthwise", v, {6, 1, 3, 3}, {0, 0, 0, 0}, {{"group", int64_t{6}}});
  return classify(m, v, 6);
}

std::vector<float> logits_of(const ImportedNetwork& network, const std::vector<uint8_t>& pixels) {
  auto run = ImportedRun::create(network, Model::kBatch, false);
  EXPECT_TRUE(run.ok()) << run.error().message;
  auto logits = (*run)->logits(pixels);
  EXPECT_TRUE(logits.ok()) << logits.error().message;
  return std::move(*logits);
}

TEST(InsertBatchNorm, TheNetworkComputesTheSame) {
  Model m(1, kSide, kSide);
  auto network = imported(m.finish(folded(m)));
  ASSERT_TRUE(network.ok()) << network.error().message;
  const std::vector<float> before = logits_of(*network, m.pixels());
  const auto layers =
      insert_batch_norms(example_set(), {.threads = 2, .isa = best_isa()}, *network);
  ASSERT_TRUE(layers.ok()) << layers.error().message;
  EXPECT_EQ(*layers, (std::vector<std::string>{"c1", "c2", "depthwise"}));
  EXPECT_EQ(count_of(*network, "batch_norm"), 3);
  EXPECT_EQ(network->parameters.size(), network->graph.parameters.size());
  const std::vector<float> after = logits_of(*network, m.pixels());
  ASSERT_EQ(after.size(), before.size());
  float largest = 0;
  for (const float number : before) largest = std::max(largest, std::abs(number));
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(after[i], before[i], 1e-5 * largest);
  }
}

TEST(InsertBatchNorm, ChannelsHaveADeviationOfOne) {
  Model m(1, kSide, kSide);
  auto network = imported(m.finish(folded(m)));
  ASSERT_TRUE(network.ok()) << network.error().message;
  const auto layers =
      insert_batch_norms(example_set(), {.threads = 1, .isa = best_isa()}, *network);
  ASSERT_TRUE(layers.ok()) << layers.error().message;
  int found = 0;
  for (const onnx::ImportedParameter& parameter : network->parameters) {
    if (!parameter.name.ends_with("running_variance")) continue;
    for (const double variance : parameter.doubles) EXPECT_NEAR(variance, 1, 1e-9);
    ++found;
  }
  EXPECT_EQ(found, 3);
  for (const onnx::ImportedParameter& parameter : network->parameters) {
    EXPECT_FALSE(parameter.name == "c1.bias" || parameter.name == "depthwise.bias");
  }
}

// Positions with channels: each channel's numbers over all positions. A convolution that makes one
// position gets none, however many channels it has.
TEST(InsertBatchNorm, OfNumbersOverOneAxis) {
  constexpr int64_t kLong = 12, kIn = 3;
  Model m(ElementType::kFloat, {Model::kBatch, kIn, kLong});
  std::string v = m.conv("c1", "x", {6, kIn, 3}, {1, 1});
  v = m.add("Relu", "r1", {v});
  v = m.conv("c2", v, {8, 6, kLong}, {0, 0});
  v = m.add("Flatten", "flat", {m.add("Relu", "r2", {v})});
  v = m.add("Gemm", "fc", {v, m.weights("fc.weight", {5, 8}), m.weights("fc.b", {5})},
            {{"transB", int64_t{1}}});
  auto network = imported(m.finish(v));
  ASSERT_TRUE(network.ok()) << network.error().message;
  ExampleSet set{.count = kImages};
  std::vector<int16_t> numbers(static_cast<size_t>(kImages * kLong * kIn));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<int16_t>(8192 * uniform("numbers", static_cast<int64_t>(i)) - 4096);
  }
  set.tensors.push_back({kNumberTensor, Shape{kLong, kIn}, numbers});
  set.tensors.push_back({kLabelTensor, Shape{}, std::vector<Label>(kImages)});
  const auto layers = insert_batch_norms(set, {.isa = best_isa()}, *network);
  ASSERT_TRUE(layers.ok()) << layers.error().message;
  EXPECT_EQ(*layers, std::vector<std::string>{"c1"});
  for (const onnx::ImportedParameter& parameter : network->parameters) {
    if (!parameter.name.ends_with("running_variance")) continue;
    for (const double variance : parameter.doubles) EXPECT_NEAR(variance, 1, 1e-9);
  }
}

// The same with any number of threads: runs that start from it are the same.
TEST(InsertBatchNorm, DoesNotDependOnThreads) {
  std::vector<onnx::ImportedParameter> first;
  for (const int threads : {1, 3}) {
    Model m(1, kSide, kSide);
    auto network = imported(m.finish(folded(m)));
    ASSERT_TRUE(network.ok());
    ASSERT_TRUE(
        insert_batch_norms(example_set(), {.threads = threads, .isa = best_isa()}, *network).ok());
    if (threads == 1) {
      first = std::move(network->parameters);
      continue;
    }
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(network->parameters[i].floats, first[i].floats) << first[i].name;
      EXPECT_EQ(network->parameters[i].doubles, first[i].doubles) << first[i].name;
    }
  }
}

TEST(InsertBatchNorm, ANetworkThatHasThemIsRefused) {
  Model m(1, kSide, kSide);
  std::string v = m.conv("c1", "x", {6, 1, 3, 3}, {1, 1, 1, 1});
  v = m.norm("n1", v, 6);
  auto network = imported(m.finish(classify(m, v, 6)));
  ASSERT_TRUE(network.ok());
  const auto layers = insert_batch_norms(example_set(), {.isa = best_isa()}, *network);
  ASSERT_FALSE(layers.ok());
  EXPECT_EQ(
      layers.error().message,
      "insert-batch-norm: 'net' has no convolution with a bias and without a batch norm behind "
      "it");
}

}  // namespace
}  // namespace mantissa::testing
