// Exported networks of sequences compute what `predict` computes, in all that the command line's
// built-in networks do not have.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "mantissa/runs.h"
#include "mantissa/training.h"
#include "onnx/evaluate/evaluate.h"
#include "onnx/reader.h"

namespace mantissa {
namespace {

using onnx::ElementType;

constexpr int64_t kExamples = 24, kSteps = 7, kTokens = 9, kChannels = 12, kClasses = 5;

// Numbers from 0 to 1 that look random, the same everywhere.
class Numbers {
 public:
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 40) * 0x1p-24;
  }
  int32_t below(int64_t limit) { return static_cast<int32_t>(next() * static_cast<double>(limit)); }

 private:
  uint64_t state_ = 1;
};

struct Kind {
  const char* op;
  int64_t gates;
  const char* exported;
};
constexpr Kind kKinds[] = {{"rnn", 1, "RNN"}, {"lstm", 4, "LSTM"}, {"gru", 3, "GRU"}};

Var gates_of(NetworkBuilder& b, const Kind& kind, Var from) {
  return b.add("linear", {from},
               {{"channels", kind.gates * kChannels}, {"least_bits", int64_t{16}}});
}
Var embedding(NetworkBuilder& b, Var tokens) {
  return b.add("embedding", {tokens}, {{"rows", kTokens}, {"channels", kChannels}});
}
Var last_position(NetworkBuilder& b, Var rows) {
  const Var flat = b.add("reshape", {rows}, {{"channels", kSteps * kChannels}});
  return b.add("slice", {flat}, {{"first", (kSteps - 1) * kChannels}, {"channels", kChannels}});
}
Network finished(NetworkBuilder& b, Var result) {
  const Var logits = b.linear(kClasses, result, "classifier");
  b.cross_entropy(logits, "labels");
  auto network = b.finish({logits});
  EXPECT_TRUE(network.ok()) << network.error();
  return *network;
}

// Tokens of sequences and their lengths; padding is token 0.
struct Examples {
  std::vector<int32_t> tokens, lengths, labels;
  bool has_lengths;
  int64_t labels_of_one;
  int64_t steps = kSteps;

  Examples(bool with_lengths, bool labels_of_rows)
      : has_lengths(with_lengths), labels_of_one(labels_of_rows ? kSteps : 1) {
    Numbers random;
    for (int64_t n = 0; n < kExamples; ++n) {
      lengths.push_back(has_lengths ? 1 + random.below(kSteps) : static_cast<int32_t>(kSteps));
      for (int64_t t = 0; t < kSteps; ++t) {
        tokens.push_back(t < lengths.back() ? random.below(kTokens) : 0);
      }
      for (int64_t t = 0; t < labels_of_one; ++t) labels.push_back(random.below(kClasses));
    }
  }

  int64_t count() const { return std::ssize(lengths); }

  // One of them, without padding.
  Examples alone(int64_t n) const {
    Examples one = *this;
    one.steps = lengths[n];
    one.lengths = {lengths[n]};
    one.tokens = {tokens.begin() + n * kSteps, tokens.begin() + n * kSteps + one.steps};
    return one;
  }

  ArraySet arrays() const {
    ArraySet set = {kExamples, {{"tokens", Elements::kInt32, {kSteps}, tokens.data()}}};
    if (has_lengths) set.arrays.push_back({"lengths", Elements::kInt32, {}, lengths.data()});
    set.arrays.push_back({"labels", Elements::kInt32,
                          labels_of_one == 1 ? Dims{} : Dims{labels_of_one}, labels.data()});
    return set;
  }
};

class ExportedSequences : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("mantissa-exported-sequences-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The network with parameters from -0.6 to 0.6, frozen.
  static Model frozen(const Network& network, const Examples& examples, const std::string& format) {
    auto trainer = Trainer::create(network, {{"format", format}, {"batch-size", "8"}});
    EXPECT_TRUE(trainer.ok()) << trainer.error();
    Numbers random;
    for (const ParameterInfo& parameter : network.parameters()) {
      std::vector<double> numbers = trainer->parameter(parameter.name)->numbers;
      for (double& number : numbers) number = 1.2 * random.next() - 0.6;
      EXPECT_TRUE(trainer->set_parameter(parameter.name, numbers).ok());
    }
    auto model = trainer->freeze(examples.arrays());
    EXPECT_TRUE(model.ok()) << model.error();
    return *model;
  }

  ExportOutcome exported(const Model& model) const {
    const std::string file = (folder_ / "net.safetensors").string();
    EXPECT_TRUE(model.save(file).ok());
    return export_model({{"checkpoint", file}, {"out", (folder_ / "net.onnx").string()}});
  }

  // The file's logits, computed in float.
  std::vector<double> computed(const Examples& examples) const {
    auto model = onnx::read_model(folder_ / "net.onnx");
    EXPECT_TRUE(model.ok()) << model.error().message;
    std::vector<int64_t> ids(examples.tokens.begin(), examples.tokens.end()), mask;
    for (const int32_t length : examples.lengths) {
      for (int64_t t = 0; t < examples.steps; ++t) mask.push_back(t < length ? 1 : 0);
    }
    onnx::Tensors inputs;
    const auto give = [&](const std::string& name, const std::vector<int64_t>& numbers) {
      inputs[name] = {name,
                      ElementType::kInt64,
                      {examples.count(), examples.steps},
                      std::as_bytes(std::span(numbers)),
                      nullptr};
    };
    give("input_ids", ids);
    if (examples.has_lengths) give("attention_mask", mask);
    ThreadPool pool(1);
    const auto outputs = onnx::evaluate(*model, inputs, pool);
    EXPECT_TRUE(outputs.ok()) << (outputs.ok() ? "" : outputs.error().message);
    if (!outputs.ok()) return {};
    const auto* numbers = reinterpret_cast<const float*>((*outputs)[0].bytes.data());
    return {numbers, numbers + (*outputs)[0].bytes.size() / sizeof(float)};
  }

  // Exports the network in real numbers and in integers, and compares its logits with ours. In real
  // numbers an example's last state is the same without padding.
  void expect_near(const Network& network, const Examples& examples) const {
    for (const char* format : {"fp32", "bfp8", "bfp:block=channel"}) {
      const Model model = frozen(network, examples, format);
      const ExportOutcome outcome = exported(model);
      ASSERT_EQ(outcome.error, "") << format;
      const std::vector<double> wanted = (*model.predict(examples.arrays()))[0];
      const std::vector<double> found = computed(examples);
      ASSERT_EQ(found.size(), wanted.size());
      double product = 0, of_found = 0, of_wanted = 0, distance = 0;
      for (size_t i = 0; i < found.size(); ++i) {
        product += found[i] * wanted[i];
        of_found += found[i] * found[i];
        of_wanted += wanted[i] * wanted[i];
        distance = std::max(distance, std::abs(found[i] - wanted[i]));
      }
      const bool is_real = std::string(format) == "fp32";
      EXPECT_LT(distance, is_real ? 1e-5 : 0.06) << format << " " << network.name();
      EXPECT_GT(product / std::sqrt(of_found * of_wanted), is_real ? 0.9999999 : 0.9999)
          << format << " " << network.name();
      if (!is_real || examples.labels_of_one != 1) continue;
      for (int64_t n = 0; n < kExamples; ++n) {
        const std::vector<double> alone = computed(examples.alone(n));
        for (int64_t k = 0; k < kClasses; ++k)
          EXPECT_NEAR(alone[k], wanted[n * kClasses + k], 1e-5);
      }
    }
  }

  void expect_refused(NetworkBuilder& b, Var result, bool with_lengths,
                      const std::string& reason) const {
    const bool of_rows = b.dims(result).size() == 2;
    const Network network = finished(b, result);
    const ExportOutcome outcome =
        exported(frozen(network, Examples(with_lengths, of_rows), "bfp8"));
    EXPECT_NE(outcome.error.find(reason), std::string::npos) << outcome.error;
  }

  std::filesystem::path folder_;
};

TEST_F(ExportedSequences, LayersInBothDirections) {
  for (const Kind& kind : kKinds) {
    NetworkBuilder b(kind.op);
    const Var embedded = embedding(b, b.indices("tokens", {kSteps}));
    OperatorSettings settings;
    if (std::string(kind.op) == "lstm") settings = {{"peepholes", int64_t{1}}};
    const Var forward = b.add(kind.op, {gates_of(b, kind, embedded)}, settings);
    const Var turned = b.add("reverse", {embedded});
    const Var backward = b.add("reverse", {b.add(kind.op, {gates_of(b, kind, turned)}, settings)});
    const Var both = b.add("concat", {forward, backward});
    expect_near(finished(b, b.add(kind.op, {gates_of(b, kind, both)})), {false, true});
  }
}

TEST_F(ExportedSequences, LastStates) {
  for (const Kind& kind : kKinds) {
    for (const bool with_lengths : {false, true}) {
      NetworkBuilder b(kind.op);
      Var h = embedding(b, b.indices("tokens", {kSteps}));
      const Var lengths = with_lengths ? b.indices("lengths", {}) : Var{};
      for (int layer = 0; layer < 2; ++layer) {
        std::vector<Var> inputs = {gates_of(b, kind, h)};
        if (with_lengths) inputs.push_back(lengths);
        h = b.add(kind.op, inputs);
      }
      expect_near(finished(b, last_position(b, h)), {with_lengths, false});
    }
  }
}

TEST_F(ExportedSequences, StatesAtTheStart) {
  for (const Kind& kind : kKinds) {
    NetworkBuilder b(kind.op);
    const Var embedded = embedding(b, b.indices("tokens", {kSteps}));
    const Var lengths = b.indices("lengths", {});
    const Var last = last_position(b, b.add(kind.op, {gates_of(b, kind, embedded), lengths}));
    std::vector<Var> inputs = {gates_of(b, kind, embedded), lengths, last};
    OperatorSettings settings;
    if (kind.gates == 4) {
      inputs.push_back(b.linear(kChannels, last));
      settings = {{"peepholes", int64_t{1}}};
    }
    expect_near(finished(b, b.add(kind.op, inputs, settings)), {true, true});
  }
}

TEST_F(ExportedSequences, RefusesByName) {
  const auto start = [](NetworkBuilder& b) { return embedding(b, b.indices("tokens", {kSteps})); };
  {
    NetworkBuilder b("net");
    const Var rows = start(b);
    const Var gates = b.sum(gates_of(b, kKinds[1], rows), gates_of(b, kKinds[1], rows));
    expect_refused(b, b.add("lstm", {gates}, {}, "cell"), false,
                   "node 'cell' (lstm) has gates of another layer than a linear one");
  }
  {
    NetworkBuilder b("net");
    const Var rows = start(b);
    const Var h = b.add("gru", {gates_of(b, kKinds[2], rows), b.indices("lengths", {})});
    expect_refused(b, b.add("reverse", {h}, {}, "turned"), true,
                   "node 'turned' (reverse) puts padding in front");
  }
  {
    NetworkBuilder b("net");
    const Var rows = start(b);
    const Var h = b.add("gru", {gates_of(b, kKinds[2], rows), b.indices("lengths", {})});
    expect_refused(b, last_position(b, b.relu(h)), true, "the last position, which may be padding");
  }
}

}  // namespace
}  // namespace mantissa
