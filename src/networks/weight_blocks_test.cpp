// Networks whose frozen weights stay in blocks of 4 and 8 bits compute what the same weights do as
// floats, and need no more memory for them than a file.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "base/random.h"
#include "graph/rebuild.h"
#include "kernels/kernel_table.h"
#include "models/json/network_json.h"
#include "models/language_layers.h"
#include "models/decoder.h"
#include "ops/loss.h"
#include "ops/ops.h"
#include "plan/passes/network_format.h"
#include "plan/programs/program.h"
#include "plan/programs/verify.h"
#include "runtime/executor.h"
#include "runtime/named_parameters.h"
#include "runtime/weight_blocks.h"

namespace mantissa {
namespace {

constexpr int64_t kTokens = 8, kBatch = 2;

struct ModelChoice {
  bool tied = true;
  bool bias = false;
};

Graph small_llama(const ModelChoice& choice) {
  const DecoderSizes sizes{.layers = 1,
                         .channels = 64,
                         .heads = 2,
                         .key_heads = 1,
                         .head_channels = 32,
                         .inner = 96,
                         .vocabulary = 70,
                         .tied = choice.tied,
                         .query_bias = choice.bias};
  auto graph = llama_lm("small", sizes, kTokens);
  EXPECT_TRUE(graph.ok());
  return std::move(*graph);
}

// A network of operators that take an exponent for each token.
Graph small_rows(int64_t vocabulary, int64_t channels) {
  GraphBuilder builder("rows");
  const int tokens = builder.add_input("tokens", Shape{kTokens}, mantissa::Element::kIndex);
  const int embedded = builder.add(ops::kEmbedding, "embedding", {tokens},
                                   {{"rows", vocabulary}, {"channels", channels}});
  const int normed = builder.add(ops::kRmsNorm, "norm1", {embedded});
  const int inner = builder.add(ops::kGelu, "gelu",
                                {add_linear(builder, "up", normed, 96, kWideBits)});
  const int stream = add_to_stream(builder, "add", embedded,
                                   add_linear(builder, "down", inner, channels, kWideBits));
  const int last = builder.add(ops::kRmsNorm, "norm2", {stream});
  auto graph = builder.finish(add_classifier(builder, last, vocabulary, true, embedded));
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  auto whole = ops::with_loss(std::move(*graph), ops::LossKind::kCrossEntropy, 0);
  EXPECT_TRUE(whole.ok()) << (whole.ok() ? "" : whole.error().message);
  return std::move(*whole);
}

bool is_of_table(const Node& node) {
  return node.op == &ops::kEmbedding || node.name == "classifier";
}

// The kind of a layer's blocks: all three of GGUF files are there.
BlockKind kind_of(const Node& node) {
  if (is_of_table(node)) return BlockKind::kQ8_0;
  return node.name.ends_with("down") || node.name.ends_with("value") ? BlockKind::kQ4_0
                                                                     : BlockKind::kQ4_1;
}

// Groups of 32 and 64, rows of `down` being no multiple of 64.
BlockKind group_of(const Node& node) {
  if (node.name.ends_with("down")) return BlockKind::kW3G32;
  return is_of_table(node) || node.name.ends_with("up") ? BlockKind::kW4G64 : BlockKind::kW3G64;
}

// Groups of 128; two tables of their own.
BlockKind large_group_of(const Node& node) {
  if (node.name.ends_with("down")) return BlockKind::kW3G32;
  return is_of_table(node) ? BlockKind::kW4G128 : BlockKind::kW3G128;
}

using KindOf = BlockKind(const Node&);

// The same network with its layers' weights in blocks, as its JSON says.
Graph in_blocks(const Graph& graph, KindOf* own_kind = kind_of) {
  const auto name_blocks = [&](GraphBuilder&, int n, std::vector<int>&, Attributes& attributes) {
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    if (node.op != &ops::kLinear && node.op != &ops::kEmbedding) return;
    std::vector<Attributes::Item> items = attributes.items();
    std::erase_if(items, [](const auto& item) { return item.first == "weight_blocks"; });
    items.emplace_back("weight_blocks", std::string(block_kind_name(own_kind(node))));
    attributes = Attributes(std::move(items));
  };
  const auto changed = rebuilt(graph, {.before = name_blocks});
  EXPECT_TRUE(changed.ok()) << (changed.ok() ? "" : changed.error().message);
  auto again = parse_network(to_json(*changed));
  EXPECT_TRUE(again.ok()) << (again.ok() ? "" : again.error().message);
  return std::move(*again);
}

// Trains a graph whose weights are frozen on random tokens.
class FrozenBase {
 public:
  FrozenBase(const Graph& graph, const std::string& format, int threads = 1, Isa isa = best_isa())
      : graph_(in_format(graph, *parse_format(format))), pool_(threads) {
    format_ = *parse_format(format);
    state_.emplace(
        std::move(*State::create(training_layout(graph_, format_, OptimizerKind::kAdam))));
    initialise(graph_, format_, 3, *state_);
    const kernels::KernelTable table = kernels::select_kernels(isa);
    auto program = compile(graph_,
                           {.micro_batch_size = kBatch,
                            .micro_batches = 1,
                            .optimizer = OptimizerKind::kAdam,
                            .exponents = training_exponents(format_),
                            .format = format_},
                           {&table, threads});
    EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message);
    program_ = std::move(*program);
    const Status verified = verify(graph_, program_);
    EXPECT_TRUE(verified.ok()) << (verified.ok() ? "" : verified.error().message);
    arena_.emplace(std::move(*AlignedMemory::create(program_.arena_bytes)));
    std::memset(arena_->data(), 0xA5, static_cast<size_t>(program_.arena_bytes));
    executor_.emplace(graph_, program_, *state_, arena_->span(), pool_, isa);
  }

  // Takes the numbers of another network's parameters: of blocks the mantissas that they stand for,
  // as the reference expands them, else float32.
  void take(const FrozenBase& other) {
    std::vector<std::vector<float>> numbers(other.graph_.parameters.size());
    std::vector<std::vector<int8_t>> mantissas(numbers.size());
    std::vector<NamedParameter> list;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const Parameter& parameter = other.graph_.parameters[i];
      const ParameterState& tensors = other.state_->layout().parameters[i];
      NamedParameter own{.name = parameter.name,
                         .type = DataType::kFloat,
                         .shape = parameter.shape,
                         .numbers = {}};
      if (parameter.storage == Storage::kBlocks && tensors.exponent >= 0) {
        mantissas[i].resize(static_cast<size_t>(parameter.shape.count()));
        const int64_t count = parameter.shape[1] / block_weights(parameter.blocks);
        const RefExpandBlocks args{.blocks = other.state_->data<uint8_t>(tensors.mantissa),
                                   .row_bytes = count * block_bytes(parameter.blocks),
                                   .kind = ref_kind(parameter.blocks),
                                   .count = count,
                                   .exponents = other.state_->data<int16_t>(tensors.exponent),
                                   .out = mantissas[i].data()};
        ref_expand_blocks(&args, 0, parameter.shape[0]);
        own.type = DataType::kInt8;
        own.numbers = std::as_bytes(std::span(mantissas[i]));
        own.exponents = other.state_->bytes(tensors.exponent);
      } else {
        const auto doubles = parameter_numbers(*other.state_, static_cast<int>(i));
        numbers[i].assign(doubles.begin(), doubles.end());
        own.numbers = std::as_bytes(std::span(numbers[i]));
      }
      list.push_back(std::move(own));
    }
    const auto taken = take_named_parameters(graph_, format_, list, *state_);
    ASSERT_TRUE(taken.ok()) << taken.error().message;
    EXPECT_TRUE(taken->initial.empty());
  }

  double step() {
    std::array<int32_t, kBatch * kTokens> tokens, labels;
    const int64_t vocabulary = graph_.classes();
    for (size_t i = 0; i < tokens.size(); ++i) {
      const uint64_t bits = random_bits(9, RandomStream::kShuffle, 0, static_cast<uint64_t>(100 * steps_) + i);
      tokens[i] = static_cast<int32_t>(bits % static_cast<uint64_t>(vocabulary));
      labels[i] = static_cast<int32_t>((bits >> 32) % static_cast<uint64_t>(vocabulary));
    }
    const auto result = executor_->train_step(
        std::array<const void*, 2>{tokens.data(), labels.data()},
        {.learning_rate = 0.01, .gradient_scale = 1.0 / static_cast<double>(tokens.size()), .step = steps_++});
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return result.ok() ? result->loss : NAN;
  }

  // The bytes of trained parameters and all that belongs to them, and of predictors.
  std::map<std::string, std::string> trained() const {
    std::set<std::string> frozen;
    for (const Parameter& parameter : graph_.parameters) {
      if (!parameter.trained) frozen.insert(parameter.name);
    }
    std::map<std::string, std::string> bytes;
    const auto& tensors = state_->layout().tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      std::string owner = tensors[i].name;
      if (owner.ends_with(".exponent")) owner.resize(owner.size() - 9);
      if (frozen.contains(owner)) continue;
      const auto own = state_->bytes(static_cast<int>(i));
      bytes[tensors[i].name] = std::string(reinterpret_cast<const char*>(own.data()), own.size());
    }
    return bytes;
  }

  const State& state() const { return *state_; }
  const Graph& graph() const { return graph_; }
  const Program& program() const { return program_; }

 private:
  Graph graph_;
  Format format_;
  ThreadPool pool_;
  Program program_;
  std::optional<State> state_;
  std::optional<AlignedMemory> arena_;
  std::optional<Executor> executor_;
  int64_t steps_ = 0;
};

// The network with the weights frozen that the one in blocks has frozen.
Graph frozen(Graph graph) {
  for (const Node& node : graph.nodes) {
    if (node.op != &ops::kLinear && node.op != &ops::kEmbedding) continue;
    for (const int parameter : node.parameters) {
      graph.parameters[parameter].trained = graph.parameters[parameter].decays = false;
    }
  }
  return graph;
}

void expect_same_training(const Graph& graph, const char* format, int steps = 3,
                          KindOf* own_kind = kind_of) {
  FrozenBase blocks(in_blocks(graph, own_kind), format), plain(frozen(graph), format);
  plain.take(blocks);
  EXPECT_TRUE(blocks.trained() == plain.trained()) << format;
  for (int i = 0; i < steps; ++i) EXPECT_EQ(blocks.step(), plain.step()) << format << " " << i;
  EXPECT_TRUE(blocks.trained() == plain.trained()) << format;
}

constexpr const char* kRows = "bfp:block=channel,blocks=token";

TEST(NetworksInBlocks, TrainAsTheSameWeightsWithAnExponentForEachChannel) {
  expect_same_training(small_llama({}), "bfp:block=channel");
  expect_same_training(small_llama({.tied = false, .bias = true}), "bfp:block=channel");
  expect_same_training(small_rows(70, 64), kRows);
  expect_same_training(small_rows(70, 64), "bfp:a=16,block=channel,blocks=token");
}

TEST(NetworksInBlocks, OfGroupsTrainAsTheSameWeights) {
  for (const char* format : {"bfp:block=channel", "fp32"}) {
    expect_same_training(small_llama({.tied = false, .bias = true}), format, 3, group_of);
  }
  expect_same_training(small_rows(70, 64), kRows, 3, group_of);
  expect_same_training(small_rows(70, 128), kRows, 3, large_group_of);
}

TEST(NetworksInBlocks, TrainAsTheSameWeightsAsFloats) {
  expect_same_training(small_llama({}), "fp32");
  expect_same_training(small_llama({.tied = false, .bias = true}), "fp32");
}

// Logits of so many tokens are computed from slices of the table, and so is the gradient.
TEST(NetworksInBlocks, OfManyTokensAreExpandedInSlices) {
  constexpr int64_t kMany = 32'900, kChannels = 128;
  for (const char* format : {"bfp:block=channel", kRows}) {
    expect_same_training(small_rows(kMany, kChannels), format, 2);
  }
  expect_same_training(small_rows(kMany, 2 * kChannels), kRows, 1, large_group_of);
  const FrozenBase base(in_blocks(small_rows(kMany, kChannels)), kRows);
  for (const Buffer& buffer : base.program().buffers) {
    if (buffer.kind != BufferKind::kWorkspace || buffer.name != "classifier") continue;
    EXPECT_LT(buffer.bytes, kMany * kChannels + kBatch * kTokens * kMany * 2);
  }
}

TEST(NetworksInBlocks, HaveTheSameBitsOverThreadsAndInstructionSets) {
  const std::pair<Graph, const char*> cases[] = {
      {in_blocks(small_llama({})), "bfp8"},
      {in_blocks(small_llama({})), "bfp:a=16,g=8"},
      {in_blocks(small_rows(70, 64)), kRows},
      {in_blocks(small_llama({}), group_of), "bfp8"},
      {in_blocks(small_rows(70, 128), large_group_of), kRows}};
  for (const auto& [graph, format] : cases) {
    FrozenBase scalar(graph, format, 1, Isa::kScalar);
    for (int i = 0; i < 3; ++i) scalar.step();
    for (const Isa isa : {Isa::kAvx2, best_isa()}) {
      FrozenBase other(graph, format, 3, isa);
      for (int i = 0; i < 3; ++i) other.step();
      EXPECT_EQ(other.state().sha256(StateGroup::kPredictor),
                scalar.state().sha256(StateGroup::kPredictor))
          << format;
    }
  }
}

TEST(NetworksInBlocks, StateHasTheirBytesAndAnExponentForEachRow) {
  for (const auto& [graph, text] :
       {std::pair{in_blocks(small_llama({})), "bfp8"},
        {in_blocks(small_llama({})), "fp32"},
        {in_blocks(small_llama({}), group_of), "bfp8"}}) {
    const Format format = *parse_format(text);
    const StateLayout layout = training_layout(graph, format, OptimizerKind::kAdam);
    for (size_t i = 0; i < graph.parameters.size(); ++i) {
      const Parameter& parameter = graph.parameters[i];
      if (parameter.storage != Storage::kBlocks) continue;
      const ParameterState& state = layout.parameters[i];
      EXPECT_EQ(layout.tensors[state.mantissa].bytes(),
                bytes_in_blocks(parameter.blocks, parameter.shape.count()));
      EXPECT_EQ(state.accumulator, -1);
      EXPECT_EQ(state.moments[0].mantissa, -1);
      EXPECT_EQ(state.gradient_exponent, -1);
      ASSERT_EQ(state.exponent >= 0, !format.is_float());
      if (state.exponent < 0) continue;
      EXPECT_EQ(layout.tensors[state.exponent].shape.count(), parameter.shape[0]);
    }
  }
}

std::string refusal(const Graph& graph, const char* format) {
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  const Format parsed = *parse_format(format);
  const auto program = compile(graph,
                               {.micro_batch_size = kBatch,
                                .micro_batches = 1,
                                .optimizer = OptimizerKind::kAdam,
                                .exponents = training_exponents(parsed),
                                .format = parsed},
                               {&table, 1});
  return program.ok() ? "accepted" : program.error().message;
}

TEST(NetworksInBlocks, FormatsAndRowsThatDoNotTakeThemSaySo) {
  const Graph graph = in_blocks(small_llama({}));
  EXPECT_NE(refusal(graph, "dfp8").find("'embedding' (embedding): weight_blocks have an exponent"),
            std::string::npos);
  EXPECT_NE(refusal(graph, "bfp:ties=up,w=7").find("weight_blocks become weights of 8 bits"),
            std::string::npos);
  Graph trained = graph;
  trained.parameters[0].trained = true;
  EXPECT_NE(refusal(trained, "bfp8").find("weight_blocks cannot be trained"), std::string::npos);
  GraphBuilder odd("odd");
  odd.add(ops::kEmbedding, "table", {odd.add_input("tokens", Shape{4}, mantissa::Element::kIndex)},
          {{"rows", 8}, {"channels", 48}, {"weight_blocks", "q4_1"}});
  EXPECT_NE(odd.status().error().message.find("rows of 48 weights are no whole number"),
            std::string::npos);
  GraphBuilder both("both");
  const int table =
      both.add(ops::kEmbedding, "table", {both.add_input("tokens", Shape{4}, mantissa::Element::kIndex)},
               {{"rows", 8}, {"channels", 64}});
  both.add(ops::kLinear, "layer", {table},
           {{"channels", 8}, {"weight_blocks", "q4_1"}, {"weight_bits", 4}});
  EXPECT_NE(both.status().error().message.find("exclude each other"), std::string::npos);
}

}  // namespace
}  // namespace mantissa
