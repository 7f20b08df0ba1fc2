// Quantised networks of sequences: pairs of QuantizeLinear and DequantizeLinear, a transformer as
// ONNX Runtime quantises it, and layers with weights of few bits in blocks.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "onnx/files/reader.h"
#include "tests/onnx/onnx_sequence_models.h"

namespace mantissa::testing {
namespace {

// A pair with this scale and this zero point, of uint8 or int8.
std::string on_grid(Model& m, const std::string& name, const std::string& from, float scale,
                    int zero, ElementType type = ElementType::kUint8) {
  const std::string s = m.number(name + ".scale", scale), z = name + ".zero";
  m.tensor(tensor_of(z, type, {}, std::vector<uint8_t>{static_cast<uint8_t>(zero)}));
  const std::string whole = m.add("QuantizeLinear", name + ".whole", {from, s, z});
  return m.add("DequantizeLinear", name, {whole, s, z});
}

bool has_note(const ImportedNetwork& network, const std::string& text) {
  return std::any_of(network.notes.begin(), network.notes.end(), [&](const std::string& note) {
    return note.find(text) != std::string::npos;
  });
}

// Each value is on the grid of the model: sums and functions read it without its factor, norms and
// layers take the factor. A grid on which the value is already adds nothing.
TEST(OnnxQuantisedRows, PairsAreNodesWithTheirGrids) {
  Model m(kReal, {kBatch, kSteps, kChannels});
  const std::string x = on_grid(m, "q0", "x", 0.0171f, 121);
  const std::string v = on_grid(m, "q1", linear(m, "first", x, kChannels, kChannels), 0.0123f, 130);
  std::string turned = m.add("Transpose", "turned", {v}, {{"perm", Wholes{1, 0, 2}}});
  turned = on_grid(m, "again", turned, 0.0123f, 130);
  turned = m.add("Transpose", "back", {turned}, {{"perm", Wholes{1, 0, 2}}});
  const std::string sum = on_grid(m, "q2", m.add("Add", "sum", {x, turned}), 0.0257f, 127);
  const std::string normed =
      m.add("LayerNormalization", "norm",
            {sum, m.weights("norm.weight", {kChannels}), m.weights("norm.bias", {kChannels})});
  const std::string bent =
      m.add("Gelu", "gelu", {on_grid(m, "q3", normed, 0.0091f, 0, ElementType::kInt8)});
  const ImportedNetwork network =
      expect_numbers(m, linear(m, "head", bent, kChannels, 4), kChannels);
  EXPECT_EQ(count_of(network, "quantise"), 4);
  EXPECT_EQ(count_of(network, "rescale"), 3);
  EXPECT_EQ(count_of(network, "linear"), 2);
  for (const Node& node : network.graph.nodes) {
    const std::string op = node.op->name;
    if (op != "quantise" && op != "rescale") continue;
    EXPECT_FALSE(network.graph.parameters[node.parameters[0]].trained) << node.name;
  }
}

// Between a product and its bias, inside GELU, of scores and probabilities, and of the output.
TEST(OnnxQuantisedRows, PairsInsideLayersAreLeftOut) {
  Model m(kReal, {kBatch, kSteps, kChannels});
  const std::string product = m.add("MatMul", "p", {"x", m.weights("w", {kChannels, kChannels})});
  const std::string sum =
      m.add("Add", "sum", {m.weights("bias", {kChannels}), on_grid(m, "q0", product, 0.02f, 120)});
  const std::string v = on_grid(m, "q1", sum, 0.03f, 120);
  std::string y = m.add("Div", "scaled", {v, m.number("root", 1.41421356f)});
  y = m.add("Erf", "erf", {on_grid(m, "q2", y, 0.02f, 120)});
  y = m.add("Add", "one", {on_grid(m, "q3", y, 0.01f, 128), m.number("ones", 1)});
  y = m.add("Mul", "product", {v, on_grid(m, "q4", y, 0.01f, 0)});
  y = m.add("Mul", "gelu", {on_grid(m, "q5", y, 0.03f, 30), m.number("half", 0.5f)});
  const Heads h = heads_of(m, on_grid(m, "q6", y, 0.02f, 30));
  std::string s = m.add("MatMul", "scores", {h.q, h.k});
  s = m.add("Mul", "factor", {on_grid(m, "q7", s, 0.02f, 100), m.number("n", 0.5f)});
  s = m.add("Softmax", "soft", {on_grid(m, "q8", s, 0.02f, 100)}, {{"axis", int64_t{-1}}});
  s = m.add("MatMul", "attend", {on_grid(m, "q9", s, 1.0f / 255, 0), h.v});
  const std::string head = linear(m, "head", join_heads(m, s), kChannels, 4);
  const auto network = import_sequences(m.finish(on_grid(m, "q10", head, 0.02f, 120)));
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(count_of(*network, "quantise"), 2);  // q1 and q6
  EXPECT_EQ(count_of(*network, "gelu"), 1);
  EXPECT_EQ(count_of(*network, "attention"), 1);
  EXPECT_EQ(count_of(*network, "position_embedding"), 0);
  EXPECT_TRUE(has_note(*network, "5 pairs of QuantizeLinear and DequantizeLinear inside layers"));
  EXPECT_TRUE(has_note(*network, "of attention's scores and probabilities are left out"));
  EXPECT_TRUE(has_note(*network, "the quantisation of the output is left out"));
}

// Another factor of the scores than attention's own is one of the queries.
TEST(OnnxQuantisedRows, ScoresMayHaveAnyFactor) {
  Model m(kReal, {kBatch, kSteps, kChannels});
  const Heads h = heads_of(m, "x");
  std::string s = m.add("MatMul", "scores", {h.q, h.k});
  s = m.add("Mul", "factor", {s, m.number("n", 0.3f)});
  s = m.add("MatMul", "attend", {m.add("Softmax", "soft", {s}), h.v});
  const ImportedNetwork network =
      expect_numbers(m, linear(m, "head", join_heads(m, s), kChannels, 4), kChannels);
  EXPECT_EQ(count_of(network, "rescale"), 1);
}

TEST(OnnxQuantisedRows, AGridThatCutsScoresIsRefused) {
  Model m(kReal, {kBatch, kSteps, kChannels});
  const Heads h = heads_of(m, "x");
  std::string s = m.add("MatMul", "scores", {h.q, h.k});
  s = m.add("Mul", "factor", {on_grid(m, "q", s, 0.02f, 0), m.number("n", 0.5f)});
  s = m.add("MatMul", "attend", {m.add("Softmax", "soft", {s}), h.v});
  const std::string text = refusal(m, linear(m, "head", join_heads(m, s), kChannels, 4));
  EXPECT_NE(text.find("(QuantizeLinear): cuts attention's scores"), std::string::npos) << text;
}

std::filesystem::path quantised_fixture(const std::string& name) {
  return std::filesystem::path(MANTISSA_SOURCE_FOLDER) / "tests/fixtures/foreign" / name;
}

// A TransformerEncoder of PyTorch, [N, 6, 4], as quantize_static of ONNX Runtime wrote it (QDQ,
// weights by channel). Its logits are those of ONNX Runtime without optimisation: its integer
// kernels saturate on CPUs without VNNI.
TEST(OnnxQuantisedRows, ATransformerOfOnnxRuntimeGivesItsLogitsAndTrains) {
  constexpr int64_t kPositions = 6, kFeatures = 4;
  std::vector<int16_t> mantissas;
  std::vector<float> numbers;
  for (int64_t i = 0; i < kBatch * kPositions * kFeatures; ++i) {
    const int64_t n = i / (kPositions * kFeatures), t = i / kFeatures % kPositions;
    const int64_t c = i % kFeatures, number = (n * 37 + t * 11 + c * 5 + t * c) % 256 - 128;
    mantissas.push_back(static_cast<int16_t>(number * 64));
    numbers.push_back(static_cast<float>(number) / 64);
  }
  std::vector<double> wanted;
  std::ifstream file(quantised_fixture("encoder_logits.txt"));
  std::string name;
  file >> name;
  for (double number = 0; file >> number;) wanted.push_back(number);
  ASSERT_EQ(wanted.size(), 10U);

  const auto model = onnx::read_model(quantised_fixture(name + ".onnx"));
  ASSERT_TRUE(model.ok()) << model.error().message;
  ThreadPool pool(1);
  const TensorData x = tensor_of("x", kReal, {kBatch, kPositions, kFeatures}, numbers);
  const auto outputs = onnx::evaluate(*model, {{"x", x}}, pool);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  const auto found = onnx::numbers<float>((*outputs)[0]);
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 2e-5) << i;

  const auto network = import_sequences(*model);
  ASSERT_TRUE(network.ok()) << network.error().message;
  expect_json(*network);
  auto run = ImportedRun::create(*network, kBatch, false);
  ASSERT_TRUE(run.ok()) << run.error().message;
  const auto logits = (*run)->logits(mantissas);
  ASSERT_TRUE(logits.ok()) << logits.error().message;
  // Steps of the grids that are left out: the output's, probabilities', of sums before a bias.
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR((*logits)[i], wanted[i], 0.04) << i;
  auto training = ImportedRun::create(*network, kBatch, true);
  ASSERT_TRUE(training.ok()) << training.error().message;
  const auto gradients = (*training)->gradients(mantissas, {1, 3});
  ASSERT_TRUE(gradients.ok()) << gradients.error().message;
  double sum = 0;
  for (const auto& of_parameter : *gradients) {
    for (const float gradient : of_parameter) sum += std::abs(gradient);
  }
  EXPECT_TRUE(sum > 1e-3 && sum < 1e4) << sum;
}

// MatMulNBits of [depth, columns] with random bytes; with a zero point for each block, or without.
std::string few_bits(Model& m, const std::string& name, const std::string& from, int64_t bits,
                     int64_t depth, int64_t columns, bool has_zeros, bool has_bias) {
  constexpr int64_t kBlock = 16;
  const int64_t blocks = (depth + kBlock - 1) / kBlock;
  const auto bytes = [&](const std::string& what, Wholes dims) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    std::vector<uint8_t> all;
    for (int64_t i = 0; i < count; ++i) {
      all.push_back(static_cast<uint8_t>(uniform(what, i) * 255.99));
    }
    m.tensor(tensor_of(what, ElementType::kUint8, dims, std::move(all)));
    return what;
  };
  const double most = bits == 4 ? 0.1 : 0.01;
  std::vector<std::string> inputs = {
      from, bytes(name + ".weight_Q" + std::to_string(bits), {columns, blocks, kBlock * bits / 8}),
      m.weights(name + ".scales", {columns * blocks}, 0, most)};
  inputs.push_back(has_zeros ? bytes(name + ".zeros", {columns * ((blocks * bits + 7) / 8)}) : "");
  if (has_bias) inputs.insert(inputs.end(), {"", m.weights(name + ".b", {columns})});
  return m.add_microsoft("MatMulNBits", name, inputs,
                         {{"K", depth}, {"N", columns}, {"bits", bits}, {"block_size", kBlock}});
}

TEST(OnnxQuantisedRows, WeightsOfFewBitsInBlocksAreTheirRealNumbers) {
  Model m(kReal, {kBatch, kSteps, kChannels});
  std::string v = few_bits(m, "first", "x", 4, kChannels, 40, true, true);
  v = m.add("Relu", "bent", {v});
  v = few_bits(m, "second", v, 4, 40, 24, false, false);
  const ImportedNetwork network =
      expect_numbers(m, few_bits(m, "third", v, 8, 24, 4, true, true), kChannels);
  EXPECT_EQ(count_of(network, "linear"), 3);
  EXPECT_EQ(network.graph.nodes[1].name, "first");
  EXPECT_TRUE(has_note(network, "2 layers with weights of 4 bits in blocks of 16 (MatMulNBits)"));
  EXPECT_TRUE(has_note(network, "1 layer with weights of 8 bits in blocks of 16 (MatMulNBits)"));
}

TEST(OnnxQuantisedRows, AnOrderOfTheWeightsIsRefused) {
  Model m(kReal, {kBatch, kSteps, kChannels});
  few_bits(m, "first", "x", 4, kChannels, 4, true, false);
  ModelData model = m.finish("first");
  model.graph.nodes.back().inputs.push_back("first.scales");
  const auto network = import_sequences(model);
  ASSERT_FALSE(network.ok());
  EXPECT_NE(network.error().message.find("an order of the weights (g_idx)"), std::string::npos)
      << network.error().message;
}

}  // namespace
}  // namespace mantissa::testing
