#include "networks/adapters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "models/json/network_json.h"
#include "models/decoder.h"
#include "models/models.h"
#include "ops/ops.h"
#include "plan/passes/network_format.h"
#include "plan/programs/program.h"
#include "runtime/executor.h"
#include "runtime/memory.h"

namespace mantissa {
namespace {

constexpr int64_t kSequence = 8, kVocabulary = 40;

Graph small_llama() {
  const DecoderSizes sizes = {.layers = 2,
                            .channels = 16,
                            .heads = 4,
                            .key_heads = 2,
                            .head_channels = 4,
                            .inner = 24,
                            .vocabulary = kVocabulary};
  auto graph = llama_lm("llama_lm", sizes, kSequence);
  EXPECT_TRUE(graph.ok());
  return std::move(*graph);
}

Graph adapted(const LoraChoice& choice, const Graph& base = small_llama()) {
  auto graph = with_adapters(base, choice);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return std::move(*graph);
}

std::string refusal(const LoraChoice& choice, const Graph& base = small_llama()) {
  const auto graph = with_adapters(base, choice);
  return graph.ok() ? "accepted" : graph.error().message;
}

std::vector<std::string> layers(const Graph& graph) {
  std::vector<std::string> names;
  for (const Adapter& adapter : adapters_of(graph)) names.push_back(adapter.layer);
  return names;
}

// A start that has all parameters of a network.
std::vector<NamedParameter> names_of(const Graph& graph) {
  std::vector<NamedParameter> list;
  for (const Parameter& parameter : graph.parameters) {
    list.push_back({.name = parameter.name, .shape = parameter.shape, .numbers = {}});
  }
  return list;
}

Graph frozen_base(const LoraChoice& choice) {
  const Graph base = small_llama();
  Graph graph = adapted(choice, base);
  const Status status = leave_base_untrained(names_of(base), choice.also, graph);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return graph;
}

std::vector<std::string> trained(const Graph& graph) {
  std::vector<std::string> names;
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.trained) names.push_back(parameter.name);
  }
  return names;
}

TEST(Adapters, StandBesideTheLayersThatPatternsName) {
  using Names = std::vector<std::string>;
  const Names all = {"block1.query", "block1.key", "block1.value", "block1.project", "block1.gate",
                     "block1.up",    "block1.down", "block2.query", "block2.key", "block2.value",
                     "block2.project", "block2.gate", "block2.up", "block2.down"};
  Names found = layers(adapted({.rank = 4}));
  std::ranges::sort(found);
  Names wanted = all;
  std::ranges::sort(wanted);
  EXPECT_EQ(found, wanted);  // not the classifier, which shares the embedding's weights
  const Names some = {"block1.query", "block1.value", "block2.query", "block2.value"};
  for (const char* on : {"query,value", "query*,value*", "*.query,*.value"}) {
    EXPECT_EQ(layers(adapted({.rank = 4, .on = on})), some) << on;
  }
  EXPECT_EQ(layers(adapted({.rank = 4, .on = "block2.*"})).size(), 7u);
  const std::string unknown = refusal({.rank = 4, .on = "query,q_proj"});
  EXPECT_NE(unknown.find("lora-on: 'q_proj' fits no layer of llama_lm"), std::string::npos);
  EXPECT_NE(unknown.find("block1.query"), std::string::npos);
  EXPECT_NE(refusal({.rank = 4, .on = "classifier"}).find("fits no layer"), std::string::npos);
  auto lenet = build_model("resnet8", {.channel_means = {0}});
  ASSERT_TRUE(lenet.ok());
  EXPECT_NE(refusal({.rank = 4}, *lenet).find("has no linear layer"), std::string::npos);
}

TEST(Adapters, AreTheFactorTimesTheProductOfTwoMatrices) {
  const Graph graph = adapted({.rank = 4, .alpha = 6});
  for (const Adapter& adapter : adapters_of(graph)) {
    EXPECT_EQ(adapter.rank, 4);
    EXPECT_EQ(adapter.factor, 1.5);
    const Parameter &a = graph.parameters[adapter.a], &b = graph.parameters[adapter.b],
                    &w = graph.parameters[adapter.weights];
    EXPECT_EQ(a.shape, (Shape{4, w.shape[1]}));
    EXPECT_EQ(b.shape, (Shape{w.shape[0], 4}));
    EXPECT_EQ(a.initialiser, Initialiser::kFanInUniform);  // PEFT's
    EXPECT_EQ(b.initialiser, Initialiser::kZero);
    EXPECT_EQ(w.name, adapter.layer + ".weights");
  }
  EXPECT_EQ(adapters_of(adapted({.rank = 4}))[0].factor, 2);  // alpha is twice the rank
  // A network that goes through JSON still has them.
  auto again = parse_network(to_json(graph));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(lora_of(*again).rank, 4);
  EXPECT_EQ(lora_of(*again).alpha, 6);
  EXPECT_EQ(lora_of(small_llama()).rank, 0);
}

TEST(Adapters, AreNotAddedTwice) {
  const LoraChoice choice = {.rank = 4, .on = "query", .alpha = 6};
  const Graph once = adapted(choice);
  EXPECT_EQ(to_json(adapted(choice, once)), to_json(once));
  EXPECT_EQ(to_json(adapted({.rank = 4, .alpha = 6}, once)), to_json(once));
  for (const LoraChoice& other : {LoraChoice{.rank = 8, .alpha = 12}, LoraChoice{.rank = 4},
                                  LoraChoice{.rank = 4, .on = "value", .alpha = 6}}) {
    EXPECT_NE(refusal(other, once).find("has adapters of rank 4 with alpha 6 already"),
              std::string::npos);
  }
}

TEST(Adapters, AloneAreTrained) {
  EXPECT_EQ(trained(frozen_base({.rank = 4, .on = "query"})),
            (std::vector<std::string>{"block1.query.lora_a.weights", "block1.query.lora_b.weights",
                                      "block2.query.lora_a.weights",
                                      "block2.query.lora_b.weights"}));
  const auto names = trained(frozen_base({.rank = 4, .on = "query", .also = "*norm*"}));
  EXPECT_EQ(names.size(), 4u + 5u);
  EXPECT_TRUE(std::ranges::count(names, "norm.scale"));
  Graph graph = adapted({.rank = 4});
  const Status none = leave_base_untrained(names_of(graph), "bias", graph);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("'bias' fits no parameter"), std::string::npos);
  // A layer that the start lacks, such as a new classifier, has nothing to keep.
  const Graph base = small_llama();
  std::vector<NamedParameter> some = names_of(base);
  std::erase_if(some, [](const NamedParameter& p) { return p.name == "norm.scale"; });
  graph = adapted({.rank = 4, .on = "query"}, base);
  ASSERT_TRUE(leave_base_untrained(some, "", graph).ok());
  EXPECT_EQ(trained(graph).size(), 5u);
}

// A training program of a network in a format.
struct Compiled {
  Graph graph;
  StateLayout layout;
  Program program;
};

Compiled compiled(const Graph& network, const char* format_text) {
  const Format format = *parse_format(format_text);
  Compiled result{.graph = in_format(network, format), .layout = {}, .program = {}};
  for (Parameter& parameter : result.graph.parameters) {
    const auto same = std::ranges::find(network.parameters, parameter.name, &Parameter::name);
    parameter.trained = same->trained;
  }
  result.layout = training_layout(result.graph, format, OptimizerKind::kAdam);
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  auto program = compile(result.graph,
                         {.micro_batch_size = 2,
                          .optimizer = OptimizerKind::kAdam,
                          .exponents = training_exponents(format),
                          .format = format},
                         {&table, 1});
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message);
  if (program.ok()) result.program = std::move(*program);
  return result;
}

int64_t numbers_of(const Graph& graph, bool of_adapters) {
  int64_t count = 0;
  for (const Parameter& parameter : graph.parameters) {
    if ((parameter.name.find(".lora_") != std::string::npos) == of_adapters) {
      count += parameter.shape.count();
    }
  }
  return count;
}

TEST(Adapters, NothingIsComputedOrKeptForTheBase) {
  const Graph graph = frozen_base({.rank = 4});
  const auto adapters = std::ssize(adapters_of(graph));
  for (const char* format : {"fp32", "bfp8", "dfp8", "bfp:block=channel"}) {
    const Compiled c = compiled(graph, format);
    std::set<int> summed, updated;
    int64_t grad_weights = 0;
    for (const Instruction& instruction : c.program.instructions) {
      if (phase_name(instruction) == "backward_weights") ++grad_weights;
      for (const Operand& operand : instruction.operands) {
        if (operand.role == Role::kSum) summed.insert(operand.index);
      }
    }
    EXPECT_EQ(grad_weights, 2 * adapters) << format;
    EXPECT_EQ(std::ssize(summed), 2 * adapters) << format;
    int64_t exponents = 0;
    for (const StateTensor& tensor : c.layout.tensors) {
      const bool of_base = tensor.name.find(".lora_") == std::string::npos;
      const bool is_exponent =
          tensor.name.ends_with(".exponent") && tensor.group != StateGroup::kPredictor;
      if (is_exponent) exponents += tensor.bytes();
      if (!of_base) continue;
      for (const char* part : {".accumulator", ".moment", ".gradient", ".velocity"}) {
        EXPECT_EQ(tensor.name.find(part), std::string::npos) << tensor.name;
      }
    }
    // An adapter has a mantissa, an accumulator and two moments; in fp32 a number and two moments.
    int64_t norms = 0;
    for (const Parameter& p : graph.parameters) {
      if (p.storage == Storage::kMantissa16) norms += p.shape.count();
    }
    const bool is_float = std::string_view(format) == "fp32";
    const int64_t wanted =
        is_float ? 4 * numbers_of(graph, false) + 12 * numbers_of(graph, true)
                 : numbers_of(graph, false) + norms + 7 * numbers_of(graph, true) + exponents;
    EXPECT_EQ(c.layout.weight_state_bytes(), wanted) << format;
  }
}

// Steps of a network on random tokens.
class Steps {
 public:
  Steps(const Graph& network, const char* format_text)
      : compiled_(compiled(network, format_text)),
        state_(std::move(*State::create(compiled_.layout))),
        arena_(std::move(*AlignedMemory::create(compiled_.program.arena_bytes))),
        executor_(compiled_.graph, compiled_.program, state_, arena_.span(), pool_, best_isa()) {
    initialise(compiled_.graph, *parse_format(format_text), 3, state_);
  }

  double step(double learning_rate) {
    std::vector<int32_t> tokens, labels;
    for (int32_t i = 0; i < 2 * kSequence; ++i) {
      tokens.push_back(i * 7 % kVocabulary);
      labels.push_back((i + 1) * 7 % kVocabulary);
    }
    const auto result = executor_.train_step(
        std::array<const void*, 2>{tokens.data(), labels.data()},
        {.learning_rate = learning_rate,
         .gradient_scale = 1.0 / (2 * kSequence),
         .step = steps_++});
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return result.ok() ? result->loss : NAN;
  }
  std::vector<double> numbers(const std::string& name) const {
    const auto& all = compiled_.graph.parameters;
    const auto found = std::ranges::find(all, name, &Parameter::name);
    return parameter_numbers(state_, static_cast<int>(found - all.begin()));
  }
  const Graph& graph() const { return compiled_.graph; }
  State& state() { return state_; }

 private:
  Compiled compiled_;
  ThreadPool pool_{1};
  State state_;
  AlignedMemory arena_;
  Executor executor_;
  int64_t steps_ = 0;
};

TEST(Adapters, LearnWhileTheBaseStays) {
  for (const char* format : {"fp32", "bfp8", "dfp8", "bfp:block=channel"}) {
    Steps steps(frozen_base({.rank = 4}), format);
    const auto base = steps.numbers("block1.query.weights");
    const double first = steps.step(0.01);
    // All were 0. In integers a small gradient may be rounded to it.
    const auto b = steps.numbers("block1.query.lora_b.weights");
    EXPECT_LT(std::ranges::count(b, 0), std::ssize(b) / 20) << format;
    double last = first;
    for (int i = 0; i < 60; ++i) last = steps.step(0.01);
    EXPECT_LT(last, 0.7 * first) << format;
    EXPECT_EQ(steps.numbers("block1.query.weights"), base) << format;
  }
}

// Adam's steps do not depend on the gradients' size: the result of an adapter after a step is
// proportional to the factor, and so is a change of the loss by a small step.
TEST(Adapters, TheFactorIsOfTheForwardPass) {
  const auto change = [](double alpha) {
    Steps steps(frozen_base({.rank = 4, .on = "down", .alpha = alpha}), "fp32");
    const double first = steps.step(1e-4);
    const auto b = steps.numbers("block2.down.lora_b.weights");
    EXPECT_NEAR(std::abs(b[0]), 1e-4, 2e-6) << alpha;  // not by the factor more
    return first - steps.step(1e-4);
  };
  const double one = change(4), four = change(16);
  EXPECT_NEAR(four / one, 4, 0.4);
}

}  // namespace
}  // namespace mantissa
