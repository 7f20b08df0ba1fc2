// What stands at the end of a model, and what quantisers and exporters leave out or write in its
// place: probabilities, one number, pairs whose grid cuts, constants that are not trained.
#include "graph/op.h"
#include "ops/ops.h"
#include "tests/onnx/onnx_sequence_models.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kInputs = 6;

std::vector<int16_t> row_examples() {
  std::vector<int16_t> all;
  for (int64_t i = 0; i < kBatch * kInputs; ++i) {
    all.push_back(static_cast<int16_t>(uniform("rows", i) * 16384 - 8192));
  }
  return all;
}

std::string gemm(Model& m, const std::string& name, const std::string& from, int64_t in,
                  int64_t out) {
  return m.add("Gemm", name,
               {from, m.weights(name + ".weight", {in, out}), m.weights(name + ".bias", {out})});
}

// A pair of QuantizeLinear and DequantizeLinear.
template <typename T>
std::string pair(Model& m, const std::string& from, float scale, ElementType type, T zero) {
  m.number("scale", scale);
  m.tensor(tensor_of("zero", type, {}, std::vector<T>{zero}));
  m.add("QuantizeLinear", "whole", {from, "scale", "zero"});
  return m.add("DequantizeLinear", "pair", {"whole", "scale", "zero"});
}

// The first model, imported, gives the results of the second one.
ImportedNetwork expect_results_of(Model& model, const std::string& output, Model& wanted,
                                  const std::string& wanted_output) {
  auto network = import_sequences(model.finish(output));
  EXPECT_TRUE(network.ok()) << (network.ok() ? "" : network.error().message);
  if (!network.ok()) return {};
  std::vector<float> x;
  for (const int16_t mantissa : row_examples()) {
    x.push_back(static_cast<float>(mantissa) * 0x1p-12F);
  }
  ThreadPool pool(1);
  const auto expected = onnx::evaluate(
      wanted.finish(wanted_output), {{"x", tensor_of("x", kReal, {kBatch, kInputs}, x)}}, pool);
  auto run = ImportedRun::create(*network, kBatch, false);
  EXPECT_TRUE(run.ok() && expected.ok());
  if (!run.ok() || !expected.ok()) return {};
  const auto logits = (*run)->logits(row_examples());
  EXPECT_TRUE(logits.ok());
  if (logits.ok()) expect_near((*expected)[0], *logits, network->graph);
  return std::move(*network);
}

std::string notes_of(const ImportedNetwork& network) {
  std::string text;
  for (const std::string& note : network.notes) text += note + "\n";
  return text;
}

// ONNX Runtime's quantiser removes a Relu, or a Clip to 6, if the grid behind it begins at 0.
TEST(OnnxEnds, APairOf16BitsThatIsLeftOutKeepsItsRelu) {
  struct Case {
    float scale;
    const char *wanted, *ours;
  };
  for (const Case& each : {Case{1e-4F, "Relu", "relu"}, Case{6.0F / 65535, "Clip", "relu6"}}) {
    Model wanted(kReal, {kBatch, kInputs}), m(kReal, {kBatch, kInputs});
    std::vector<std::string> inputs = {gemm(wanted, "first", "x", kInputs, 8)};
    if (each.wanted == std::string("Clip")) {
      inputs.insert(inputs.end(), {wanted.number("low", 0), wanted.number("high", 6)});
    }
    const std::string v = wanted.add(each.wanted, "cut", inputs);
    const std::string p = pair<uint16_t>(m, gemm(m, "first", "x", kInputs, 8), each.scale,
                                         ElementType::kUint16, 0);
    const ImportedNetwork network = expect_results_of(m, gemm(m, "last", p, 8, 5), wanted,
                                                      gemm(wanted, "last", v, 8, 5));
    EXPECT_EQ(count_of(network, each.ours), 1);
    EXPECT_NE(notes_of(network).find("begins at 0, a ReLU does"), std::string::npos);
  }
}

TEST(OnnxEnds, NoReluIsAddedWhereNothingIsCut) {
  for (const bool has_relu : {true, false}) {
    Model m(kReal, {kBatch, kInputs});
    std::string v = gemm(m, "first", "x", kInputs, 8);
    if (has_relu) v = m.add("Relu", "relu", {v});
    const auto zero = static_cast<uint16_t>(has_relu ? 0 : 32768);
    v = pair<uint16_t>(m, v, 2e-4F, ElementType::kUint16, zero);
    const auto network = import_sequences(m.finish(gemm(m, "last", v, 8, 5)));
    ASSERT_TRUE(network.ok()) << network.error().message;
    EXPECT_EQ(count_of(*network, "relu"), has_relu ? 1 : 0);
  }
}

TEST(OnnxEnds, ThePairOfTheOutputKeepsItsRelu) {
  const auto ended = [](uint8_t zero) {
    Model m(kReal, {kBatch, kInputs});
    return import_sequences(m.finish(
        pair<uint8_t>(m, gemm(m, "last", "x", kInputs, 5), 0.02F, ElementType::kUint8, zero)));
  };
  const auto cut = ended(0), whole = ended(128), above = ended(255);
  ASSERT_TRUE(cut.ok() && whole.ok());
  EXPECT_EQ(count_of(*cut, "relu"), 1);
  EXPECT_EQ(count_of(*whole, "relu"), 0);
  ASSERT_FALSE(above.ok());
  EXPECT_NE(above.error().message.find("cuts all numbers above 0"), std::string::npos)
      << above.error().message;
}

// A softmax over positions, width or height belongs to the network, not to the loss.
TEST(OnnxEnds, ASoftmaxThatIsNotOverTheClassesStays) {
  const auto softmaxes = [](Model& m, const std::string& from, int64_t axis) {
    const auto network =
        import_sequences(m.finish(m.add("Softmax", "end", {from}, {{"axis", axis}})));
    EXPECT_TRUE(network.ok()) << (network.ok() ? "" : network.error().message);
    const int64_t count = network.ok() ? count_of(*network, "softmax") : -1;
    const bool is_left_out = network.ok() && notes_of(*network).find("belongs to the loss") !=
                                                 std::string::npos;
    EXPECT_EQ(is_left_out, count == 0);
    return count;
  };
  Model signal(kReal, {kBatch, kChannels, 24}), across(kReal, {kBatch, kChannels, 24});
  EXPECT_EQ(softmaxes(signal, signal.conv("c", "x", {4, kChannels, 3}, {1, 1}), 1), 0);
  const std::string positions = across.add(
      "Softmax", "end", {across.conv("c", "x", {4, kChannels, 3}, {1, 1})}, {{"axis", int64_t{2}}});
  EXPECT_NE(refusal(across, positions).find("channels not in its last dimension"),
            std::string::npos);
  for (const int64_t axis : {1, 2}) {
    Model rows(kReal, {kBatch, kSteps, kChannels});
    EXPECT_EQ(softmaxes(rows, linear(rows, "l", "x", kChannels, 4), axis), axis == 2 ? 0 : 1);
  }
  for (const int64_t axis : {1, 2, 3}) {
    Model picture(kReal, {kBatch, kInputs, 8, 9});
    EXPECT_EQ(softmaxes(picture, picture.conv("c", "x", {4, kInputs, 3, 3}, {1, 1, 1, 1}), axis),
              axis == 1 ? 0 : 1);
  }
  Model rows(kReal, {kBatch, kSteps, kChannels});
  const std::string v = linear(rows, "l", "x", kChannels, 4);
  expect_numbers(rows, rows.add("Softmax", "end", {v}, {{"axis", int64_t{1}}}), kChannels);
  Model twice(kReal, {kBatch, kInputs});
  const std::string sigmoid = twice.add("Sigmoid", "s", {gemm(twice, "d", "x", kInputs, 4)});
  const auto network = import_sequences(twice.finish(twice.add("Softmax", "end", {sigmoid})));
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(count_of(*network, "sigmoid"), 1) << "only the softmax belongs to the loss";
}

TEST(OnnxEnds, OneNumberIsLearnedAsANumber) {
  const auto loss_of = [](int64_t outputs, std::optional<ops::LossKind> kind) {
    Model m(kReal, {kBatch, kInputs});
    onnx::ImportOptions options;
    options.has_loss = kind.has_value();
    options.loss.kind = kind.value_or(ops::LossKind::kCrossEntropy);
    const auto network =
        onnx::import_network(m.finish(gemm(m, "last", "x", kInputs, outputs)), options);
    if (!network.ok()) return network.error().message;
    const bool is_told = notes_of(*network).find("--loss sigmoid takes it") != std::string::npos;
    EXPECT_EQ(is_told, outputs == 1 && !kind);
    return std::string(network->graph.nodes[network->graph.losses[0]].op->name);
  };
  EXPECT_EQ(loss_of(1, std::nullopt), "regression_error");
  EXPECT_EQ(loss_of(1, ops::LossKind::kSquaredError), "regression_error");
  EXPECT_EQ(loss_of(1, ops::LossKind::kSigmoids), "sigmoid_cross_entropy");
  EXPECT_EQ(loss_of(3, std::nullopt), "softmax_cross_entropy");
  EXPECT_EQ(loss_of(3, ops::LossKind::kSquaredError), "mean_squared_error");
  EXPECT_EQ(loss_of(3, ops::LossKind::kRegression), "regression_error");
  EXPECT_NE(loss_of(1, ops::LossKind::kCrossEntropy).find("2 to"), std::string::npos);
}

// Names of parameters that training changes, or does not.
std::string parameters_of(const ImportedNetwork& network, bool trained) {
  std::string names;
  for (const Parameter& parameter : network.graph.parameters) {
    if (parameter.trained == trained && parameter.storage != Storage::kReal) {
      names += parameter.name + " ";
    }
  }
  return names;
}

// Numbers of the program are no parameters: PyTorch writes them as Constant nodes, or names them
// val_N.
TEST(OnnxEnds, NumbersOfTheProgramAreNotTrained) {
  const auto factored = [](const char* kind) {
    Model m(kReal, {kBatch, kInputs, 8, 9});
    std::string v = m.add("Relu", "r", {m.conv("c", "x", {4, kInputs, 3, 3}, {1, 1, 1, 1})});
    if (kind == std::string("Constant")) {
      v = m.add("Mul", "by", {v, m.add("Constant", "tenth", {}, {{"value_float", 0.1F}})});
    } else {
      v = m.add("Mul", "by", {v, m.number(kind, 0.1F)});
    }
    const auto network =
        import_sequences(m.finish(classify(m, m.add("Tanh", "t", {v}), 4)));
    EXPECT_TRUE(network.ok()) << (network.ok() ? "" : network.error().message);
    return network.ok() ? parameters_of(*network, false) : "refused";
  };
  EXPECT_EQ(factored("Constant"), "by.weights ");
  EXPECT_EQ(factored("val_12"), "by.weights ");
  EXPECT_EQ(factored("gain"), "");
}

TEST(OnnxEnds, NormsWithoutParametersAreNotTrained) {
  const auto normed = [](bool has_own, bool has_factor) {
    Model m(kReal, {kBatch, kInputs, 8, 9});
    std::string v = m.conv("c", "x", {4, kInputs, 3, 3}, {1, 1, 1, 1});
    std::string scale, offset;
    if (has_own) {
      scale = m.weights("n.weight", {4}, 0.5, 1.5);
      offset = m.weights("n.bias", {4});
    } else {
      scale = m.add("Constant", "ones", {}, {{"value_floats", std::vector<float>(4, 1)}});
      offset = m.add("Constant", "zeros", {}, {{"value_floats", std::vector<float>(4, 0)}});
    }
    v = m.add("InstanceNormalization", "n", {v, scale, offset});
    if (has_factor) v = m.add("Mul", "f", {v, m.weights("gain", {4, 1, 1}, 0.5, 1.5)});
    const auto network =
        import_sequences(m.finish(classify(m, m.add("Relu", "r", {v}), 4)));
    EXPECT_TRUE(network.ok()) << (network.ok() ? "" : network.error().message);
    return network.ok() ? parameters_of(*network, false) : "refused";
  };
  EXPECT_EQ(normed(true, false), "");
  EXPECT_EQ(normed(false, false), "n.scale n.offset ");
  EXPECT_EQ(normed(false, true), "") << "the factor is a parameter, and the norm takes it in";
}

}  // namespace
}  // namespace mantissa::testing
