// Networks that read a table's columns, [N, F]: the import computes the same as ONNX's operators,
// and trains.
#include "tensor/table_numbers.h"
#include "tests/onnx/onnx_models.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kRows = 2, kColumns = 6;

// Mantissas of the numbers, at their exponent.
std::vector<int16_t> rows() {
  std::vector<int16_t> all;
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    all.push_back(static_cast<int16_t>(uniform("rows", i) * 16384 - 8192));
  }
  return all;
}

TensorData x_of(const std::vector<int16_t>& mantissas) {
  std::vector<float> numbers;
  for (const int16_t mantissa : mantissas) {
    numbers.push_back(std::ldexp(static_cast<float>(mantissa), kFeatureExponent));
  }
  return tensor_of("x", ElementType::kFloat, {kRows, kColumns}, std::move(numbers));
}

std::string dense(Model& m, const std::string& name, const std::string& from, int64_t in,
                  int64_t out) {
  return m.add("Gemm", name,
               {from, m.weights(name + ".weight", {in, out}), m.weights(name + ".bias", {out})});
}

ImportedNetwork expect_rows(Model& model, const std::string& output, double allowed = 2e-5) {
  const ModelData& data = model.finish(output);
  auto network = onnx::import_network(data);
  EXPECT_TRUE(network.ok()) << (network.ok() ? "" : network.error().message);
  if (!network.ok()) return {};
  expect_json(*network);
  ThreadPool pool(1);
  const auto expected = onnx::evaluate(data, {{"x", x_of(rows())}}, pool);
  EXPECT_TRUE(expected.ok()) << (expected.ok() ? "" : expected.error().message);
  auto run = ImportedRun::create(*network, kRows, false);
  EXPECT_TRUE(run.ok()) << (run.ok() ? "" : run.error().message);
  if (!run.ok() || !expected.ok()) return {};
  const auto logits = (*run)->logits(rows());
  EXPECT_TRUE(logits.ok()) << (logits.ok() ? "" : logits.error().message);
  if (!logits.ok()) return {};
  if (allowed == 2e-5) expect_near((*expected)[0], *logits, network->graph);
  const auto wanted = onnx::numbers<float>((*expected)[0]);
  for (size_t i = 0; i < logits->size(); ++i) EXPECT_NEAR((*logits)[i], wanted[i], allowed * 4);
  auto training = ImportedRun::create(*network, kRows, true);
  EXPECT_TRUE(training.ok()) << (training.ok() ? "" : training.error().message);
  if (!training.ok()) return {};
  const auto gradients = (*training)->gradients(rows(), {0, 2});
  EXPECT_TRUE(gradients.ok()) << (gradients.ok() ? "" : gradients.error().message);
  return std::move(*network);
}

TEST(OnnxColumns, AResidualPerceptronWithNormsAndStandardisation) {
  Model m(ElementType::kFloat, {-1, kColumns});
  std::string v = m.add("Sub", "centred", {"x", m.weights("means", {kColumns})});
  v = m.add("Div", "standard", {v, m.weights("deviations", {kColumns}, 0.5, 1.5)});
  v = m.add("Relu", "r1", {m.norm("n1", dense(m, "d1", v, kColumns, 8), 8)});
  const std::string more = m.add("Relu", "r2", {dense(m, "d2", v, 8, 8)});
  v = m.add("Add", "sum", {v, more});
  const ImportedNetwork network = expect_rows(m, dense(m, "head", v, 8, 3));
  const Value& input = network.graph.values[network.graph.inputs[0]];
  EXPECT_EQ(input.name, "numbers");
  EXPECT_EQ(input.shape, Shape{kColumns});
  EXPECT_EQ(input.exponent, kFeatureExponent);
}

TEST(OnnxColumns, OneLogitWithASigmoid) {
  Model m(ElementType::kFloat, {kRows, kColumns});
  const std::string v = dense(m, "d1", "x", kColumns, 4);
  m.add("Sigmoid", "p", {dense(m, "head", m.add("Tanh", "t", {v}), 4, 1)});
  const auto network = onnx::import_network(m.finish("p"));
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(count_of(*network, "sigmoid_cross_entropy"), 1);
}

// Expects the same of a picture and a row, joined behind a pool or as flattened pixels. The inputs
// keep their names, in the model's order.
void expect_picture_and_row(bool has_pool) {
  Model m(1, 6, 6);
  m.add_input("the vector", ElementType::kFloat, {-1, kColumns});
  std::string v = m.add("Relu", "r1", {m.conv("c", "x", {4, 1, 3, 3}, {1, 1, 1, 1})});
  if (has_pool) v = m.add("GlobalAveragePool", "mean", {v});
  v = m.add("Flatten", "flat", {v});
  const std::string columns = m.add("Relu", "r2", {dense(m, "d1", "the vector", kColumns, 4)});
  v = m.add("Concat", "both", {v, columns}, {{"axis", int64_t{1}}});
  const ModelData& data = m.finish(dense(m, "head", v, has_pool ? 8 : 4 * 36 + 4, 3));
  const auto network = imported(data);
  ASSERT_TRUE(network.ok()) << network.error().message;
  expect_json(*network);
  const Graph& graph = network->graph;
  ASSERT_EQ(graph.inputs.size(), 3u);  // and labels
  EXPECT_EQ(graph.values[graph.inputs[0]].name, "x");
  EXPECT_EQ(graph.values[graph.inputs[0]].shape, (Shape{6, 6, 1}));
  EXPECT_EQ(graph.values[graph.inputs[1]].name, "the_vector");
  EXPECT_EQ(graph.values[graph.inputs[1]].shape, Shape{kColumns});
  ThreadPool pool(1);
  TensorData vector = x_of(rows());
  vector.name = "the vector";
  const auto expected =
      onnx::evaluate(data, {{"x", m.input(kPixelMean, kPixelDeviation)}, {"the vector", vector}}, pool);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  auto run = ImportedRun::create(*network, kRows, false);
  ASSERT_TRUE(run.ok()) << run.error().message;
  const auto pixels = m.pixels();
  const auto mantissas = rows();
  const auto logits = (*run)->logits(std::vector<const void*>{pixels.data(), mantissas.data()});
  ASSERT_TRUE(logits.ok()) << logits.error().message;
  expect_near((*expected)[0], *logits, graph);
}

TEST(OnnxColumns, BesidePictures) { expect_picture_and_row(true); }
TEST(OnnxColumns, BesideFlattenedPictures) { expect_picture_and_row(false); }

// Weights of float16 and bfloat16 are the numbers that they hold.
TEST(OnnxColumns, WeightsOf16Bits) {
  for (const bool is_half : {true, false}) {
    const ElementType type = is_half ? ElementType::kFloat16 : ElementType::kBfloat16;
    const auto to = is_half ? to_float16 : to_bfloat16;
    Model m(ElementType::kFloat, {kRows, kColumns});
    std::vector<uint16_t> halves;
    for (int64_t i = 0; i < kColumns * 3; ++i) {
      halves.push_back(to(static_cast<float>(uniform("half", i) - 0.5)));
    }
    m.tensor(tensor_of("w16", type, {kColumns, 3}, halves));
    const std::string w = m.add("Cast", "w", {"w16"}, {{"to", int64_t{1}}});
    const ImportedNetwork network = expect_rows(m, m.add("MatMul", "y", {"x", w}));
    const auto from = is_half ? from_float16 : from_bfloat16;
    EXPECT_EQ(network.parameters[0].floats[1], from(halves[3]));  // ours is [out, in]
  }
}

// A whole network of float16 computes in real numbers here: its sums are not rounded.
TEST(OnnxColumns, ANetworkOfFloat16) {
  Model m(ElementType::kFloat16, {kRows, kColumns});
  std::vector<uint16_t> halves;
  for (int64_t i = 0; i < kColumns * 3; ++i) {
    halves.push_back(to_float16(static_cast<float>(uniform("half", i) - 0.5)));
  }
  m.tensor(tensor_of("w", ElementType::kFloat16, {kColumns, 3}, halves));
  const auto network = onnx::import_network(m.finish(m.add("MatMul", "y", {"x", "w"})));
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->parameters[0].floats[0], from_float16(halves[0]));
}

TEST(OnnxColumns, PairsOfQuantisersStandBetweenLayers) {
  Model m(ElementType::kFloat, {kRows, kColumns});
  m.tensor(tensor_of("z", ElementType::kUint8, {}, std::vector<uint8_t>{0}));
  std::string v = m.add("Relu", "r", {dense(m, "d1", "x", kColumns, 8)});
  v = m.add("QuantizeLinear", "q", {v, m.number("s", 0.015f), "z"});
  v = m.add("DequantizeLinear", "d", {v, "s", "z"});
  const ImportedNetwork network = expect_rows(m, dense(m, "head", v, 8, 3), 0.01);
  EXPECT_EQ(count_of(network, "quantise"), 1);
}

TEST(OnnxColumns, TheirNumberMustBeKnown) {
  Model m(ElementType::kFloat, {-1, -1});
  const auto network = onnx::import_network(m.finish(dense(m, "y", "x", kColumns, 3)));
  ASSERT_FALSE(network.ok());
  EXPECT_NE(network.error().message.find("wants a known number of columns"), std::string::npos)
      << network.error().message;
}

}  // namespace
}  // namespace mantissa::testing
