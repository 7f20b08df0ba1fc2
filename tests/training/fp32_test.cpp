// fp32, the reference: its gradients are the slopes of its loss, it learns, and freezing keeps it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/test_folder.h"
#include "kernels/fp32/primitive.h"
#include "tests/frozen/frozen.h"
#include "tests/networks.h"

namespace mantissa::testing {
namespace {

constexpr double kDecay = 5e-4;

// A network on one batch, with SGD.
class OneBatch {
 public:
  explicit OneBatch(const std::string& model, int64_t micro_batch_size = kBatch)
      : harness_(options(model, micro_batch_size)) {}
  explicit OneBatch(Graph graph) : harness_(options("", kBatch), std::move(graph)) {}

  static constexpr int64_t kBatch = 16;

  int parameters() const { return static_cast<int>(harness_.graph().parameters.size()); }
  bool is_trained(int parameter) const { return harness_.graph().parameters[parameter].trained; }
  const std::string& name(int parameter) const {
    return harness_.graph().parameters[parameter].name;
  }

  std::span<float> values(int parameter) {
    State& state = harness_.state();
    const int tensor = state.layout().parameters[parameter].mantissa;
    return {state.data<float>(tensor),
            static_cast<size_t>(state.layout().tensors[tensor].shape.count())};
  }

  // Moves away from the start, where residual branches are zero and sums lie on the kink of a ReLU.
  void spread_scales_and_biases() {
    for (int p = 0; p < parameters(); ++p) {
      const Parameter& parameter = harness_.graph().parameters[p];
      if (!parameter.trained || parameter.storage == Storage::kWeights) continue;
      const bool is_scale = parameter.name.ends_with(".scale");
      const auto list = values(p);
      for (size_t i = 0; i < list.size(); ++i) {
        list[i] = is_scale ? 0.5f + 0.1f * static_cast<float>(i % 5)
                           : 0.07f * static_cast<float>(i % 4) - 0.1f;
      }
    }
  }

  double loss() { return step(0); }

  // Gradients of the mean loss, per parameter: a step of SGD subtracts them.
  std::vector<std::vector<float>> gradients() {
    constexpr double kRate = 1.0 / 16;
    std::vector<std::vector<float>> before;
    for (int p = 0; p < parameters(); ++p) {
      const auto now = is_trained(p) ? values(p) : std::span<float>();
      before.emplace_back(now.begin(), now.end());
    }
    step(kRate);
    std::vector<std::vector<float>> result = before;
    for (int p = 0; p < parameters(); ++p) {
      if (!is_trained(p)) continue;
      const bool decays = harness_.graph().parameters[p].storage == Storage::kWeights;
      const auto after = values(p);
      for (size_t i = 0; i < after.size(); ++i) {
        const double moved = (static_cast<double>(before[p][i]) - after[i]) / kRate;
        result[p][i] = static_cast<float>(moved - (decays ? kDecay * before[p][i] : 0));
        after[i] = before[p][i];
      }
    }
    return result;
  }

 private:
  static HarnessOptions options(const std::string& model, int64_t micro_batch_size) {
    return {.model = model,
            .format = "fp32",
            .optimizer = OptimizerKind::kSgd,
            .batch_size = kBatch,
            .micro_batch_size = micro_batch_size,
            .threads = 2};
  }

  double step(double rate) {
    const ExampleSet& images = fashion_mnist().train;
    const StepScalars scalars{.learning_rate = rate,
                              .weight_decay = kDecay,
                              .gradient_scale = 1 / static_cast<double>(kBatch)};
    const std::vector<int32_t> labels = first_labels(images, kBatch);
    const auto result = harness_.executor().train_step(
        std::array<const void*, 2>{images.pixels().data(), labels.data()}, scalars);
    EXPECT_TRUE(result.ok());
    return result.ok() ? result->loss : 0;
  }

  Harness harness_;
};

double norm(std::span<const float> values) {
  double square = 0;
  for (const float value : values) square += static_cast<double>(value) * value;
  return std::sqrt(square);
}

// Along each parameter's gradient g the loss changes by |g|^2 per unit.
void expect_slopes(OneBatch& network, const std::string& model) {
  network.spread_scales_and_biases();
  int checked = 0;
  const auto gradients = network.gradients();
  for (int p = 0; p < network.parameters(); ++p) {
    if (!network.is_trained(p)) continue;
    const std::vector<float>& g = gradients[p];
    const double length = norm(g), square = length * length;
    // Gradients of sums that a later batch norm takes out again are rounding errors.
    if (length < 1e-3 * norm(network.values(p))) continue;
    ++checked;
    // Far enough for float sums, near enough for a straight line.
    const double distance = 1e-3 / length;
    const std::vector<float> start(network.values(p).begin(), network.values(p).end());
    const auto loss_at = [&](double step) {
      for (size_t i = 0; i < g.size(); ++i) {
        network.values(p)[i] = static_cast<float>(start[i] + step * g[i]);
      }
      return network.loss();
    };
    const double slope = (loss_at(distance) - loss_at(-distance)) / (2 * distance);
    std::copy(start.begin(), start.end(), network.values(p).begin());
    EXPECT_NEAR(slope / square, 1, 0.05) << model << " " << network.name(p);
  }
  EXPECT_GE(2 * checked, network.parameters() / 2) << model;
}

TEST(Fp32, PrimitivesAreCreatedWithTheExecutorAlone) {
  const int64_t before = kernels::fp32::primitives_created();
  Harness harness({.model = "resnet8",
                   .format = "fp32",
                   .batch_size = 16,
                   .micro_batch_size = 8,
                   .threads = 2,
                   .width = 0.5});
  const int64_t created = kernels::fp32::primitives_created();
  int64_t convolutions = 0;
  for (const Instruction& instruction : harness.program().instructions) {
    const std::string_view op = instruction.op->name;
    convolutions += op == "convolution" || op == "linear" ? 1 : 0;
  }
  EXPECT_GE(created - before, convolutions);  // and reorders of weights
  harness.train(3);
  EXPECT_EQ(kernels::fp32::primitives_created(), created);
}

TEST(Fp32, GradientsAreSlopesOfTheLoss) {
  for (const char* model : {"lenet5", "resnet8"}) {
    OneBatch network(model);
    expect_slopes(network, model);
  }
  for (const NamedNetwork& named : networks_of_all_operators()) {
    const Graph graph = named.build();
    const bool in_floats =
        std::all_of(graph.nodes.begin(), graph.nodes.end(),
                    [](const Node& node) { return node.op->fp32 != nullptr || is_view(*node.op); });
    // Gradients that pass through a rounding are no slopes.
    const bool rounds = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                    [](const Node& node) { return node.op == &ops::kQuantise; });
    if (!in_floats || rounds) continue;
    OneBatch network(graph);
    expect_slopes(network, named.name);
  }
}

TEST(Fp32, MicroBatchesAddUp) {
  OneBatch whole("lenet5"), parts("lenet5", 4);
  EXPECT_NEAR(whole.loss(), parts.loss(), 1e-6);
  const auto a = whole.gradients(), b = parts.gradients();
  for (size_t p = 0; p < a.size(); ++p) {
    for (size_t i = 0; i < a[p].size(); ++i) ASSERT_NEAR(a[p][i], b[p][i], 1e-4) << p << " " << i;
  }
}

TEST(Fp32, FollowsTheIntegersInTheFirstSteps) {
  for (const char* model : {"lenet5", "resnet8"}) {
    HarnessOptions options{.model = model, .batch_size = 64, .micro_batch_size = 64, .threads = 2};
    Harness integers(options);
    options.format = "fp32";
    Harness floats(options);
    for (int step = 0; step < 5; ++step) {
      EXPECT_NEAR(floats.step().loss, integers.step().loss, 0.05) << model << " " << step;
    }
  }
}

// It has no exponents that could leave their range.
TEST(Fp32, ALossThatIsNotFiniteFailsTheStep) {
  Harness harness({.model = "lenet5", .format = "fp32", .batch_size = 4, .micro_batch_size = 4});
  const int bias = harness.state().layout().parameters.back().mantissa;  // of the logits
  harness.state().data<float>(bias)[0] = std::numeric_limits<float>::quiet_NaN();
  const ExampleSet& images = fashion_mnist().train;
  const std::vector<int32_t> labels = first_labels(images, 4);
  const auto result = harness.executor().train_step(
      std::array<const void*, 2>{images.pixels().data(), labels.data()},
      {.learning_rate = 0.01, .momentum = 0.9, .gradient_scale = 0.25});
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("the loss is not finite"), std::string::npos)
      << result.error().message;
}

TEST(Fp32, FreezesAndComesBackFromItsFile) {
  constexpr int64_t kEvaluated = 128;
  Harness harness({.model = "resnet8",
                   .format = "fp32",
                   .batch_size = kEvaluated,
                   .micro_batch_size = kEvaluated,
                   .threads = 2,
                   .learning_rate = 0.1});
  harness.train_to_rest(40);
  const Format format{.family = FormatFamily::kFloat};
  auto frozen = freeze_on(harness, "resnet8", format, kEvaluated, 0);
  ASSERT_TRUE(frozen.ok()) << frozen.error().message;
  const TestFolder folder;
  const auto path = folder / "frozen.safetensors";
  ASSERT_TRUE(save_frozen(path, *frozen).ok());
  auto loaded = load_frozen(path);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_TRUE(loaded->description.format == format);

  ExampleSet test = fashion_mnist().test;
  test.count = 3 * kEvaluated;
  const double loss = evaluate_unfrozen(harness, format, kEvaluated, test).loss;
  EXPECT_NEAR(evaluate_with(*loaded, kEvaluated, 2, best_isa(), test).loss, loss, 1e-4);
  EXPECT_NEAR(evaluate_with(*frozen, 77, 2, best_isa(), test).loss, loss, 1e-4);

  const auto rows =
      classify(*loaded, examples_from(0, 3, examples_of(test)), harness.pool(), best_isa());
  ASSERT_TRUE(rows.ok());
  for (int row = 0; row < 3; ++row) {
    double sum = 0;
    for (int k = 0; k < 10; ++k) sum += rows->probabilities[row * 10 + k];
    EXPECT_NEAR(sum, 1, 1e-9);
  }
}

}  // namespace
}  // namespace mantissa::testing
