// Networks with several inputs, shared and untrained parameters, sequences and many classes; and
// graphs that are invalid.
#include <gtest/gtest.h>

#include <chrono>

#include "kernels/common/parallel_ranges.h"
#include "ops/wide_values.h"
#include "tests/harness.h"
#include "tests/operators/gradient_check.h"

namespace mantissa::testing {
namespace {

// An operator that the engine lacks: rows of a table, by index.
struct TableAttributes {
  int64_t rows = 0, channels = 0;
};
constexpr AttributeSpec kEmbeddingSchema[] = {
    required_whole<&TableAttributes::rows>("rows", 1, 1 << 20),
    required_whole<&TableAttributes::channels>("channels", 1, 1 << 20)};
constexpr Element kIndices[] = {Element::kIndex};

Result<Shape> embedding_shape(const Attributes& attributes, std::span<const Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].rank != 1) return invalid_input("wants one [T] input");
  return Shape{inputs[0][0], attributes.as<TableAttributes>().channels};
}

std::vector<Parameter> embedding_parameters(const Attributes& attributes, std::span<const Shape>) {
  const int64_t channels = attributes.as<TableAttributes>().channels;
  return {{.name = "table",
           .shape = Shape{attributes.as<TableAttributes>().rows, channels},
           .initialiser = Initialiser::kFanInUniform,
           .fan_in = channels}};
}

void embedding_forward(const OpContext& c) {
  const auto* indices = c.inputs[0].as<int32_t>();
  const Tensor& table = c.parameters[0].mantissa;
  const int64_t channels = table.shape[1];
  ops::write_wide(c, *table.exponent, [&](int64_t i) {
    return int64_t{table.as<int8_t>()[indices[i / channels] * channels + i % channels]};
  });
}

void embedding_backward_weights(const OpContext& c) {
  const auto* indices = c.inputs[0].as<int32_t>();
  const Tensor& sums = c.parameters[0].gradient;
  const int64_t channels = sums.shape[1];
  const int shift = *sums.exponent - *c.grad_output().exponent;
  kernels::with_wide_gradient_type(c.grad_output().bits, [&](auto type) {
    for (int64_t i = 0; i < c.grad_output().count(); ++i) {
      int64_t& sum = sums.as<int64_t>()[indices[i / channels] * channels + i % channels];
      sum += rescale_rne(c.grad_output().as<decltype(type)>()[i], shift);
    }
  });
}

const Op kEmbedding = {.name = "embedding",
                       .attributes = schema<TableAttributes>(kEmbeddingSchema),
                       .infer_shape = embedding_shape,
                       .input_elements = kIndices,
                       .parameters = embedding_parameters,
                       .integer = {.forward = {.run = embedding_forward},
                                   .grad_weights = {.run = embedding_backward_weights}},
                       .emit_gradient = emit_weighted_gradient};

constexpr int64_t kTokens = 3, kRows = 11, kClasses = 5;

// Only the sum of the tokens tells the class; pixels do not.
Graph embedding_network() {
  GraphBuilder builder("tokens", Shape{2, 2, 1});
  const int tokens = builder.add_input("tokens", Shape{kTokens}, Element::kIndex);
  int pixels = builder.add(ops::kNormaliseInput, "normalise", {builder.input()});
  pixels = builder.add(ops::kFlatten, "flatten", {pixels});
  pixels = builder.add(ops::kLinear, "pixels1", {pixels}, {{"channels", 12}});
  int value = builder.add(kEmbedding, "embedding", {tokens}, {{"rows", kRows}, {"channels", 4}});
  value = builder.add(ops::kFlatten, "tokens_flat", {value});
  value = builder.add(ops::kAdd, "sum", {value, pixels});
  value = builder.add(ops::kLinear, "linear1", {value}, {{"channels", 24}});
  value = builder.add(ops::kRelu, "relu1", {value});
  value =
      builder.add(ops::kLinear, "classifier", {value}, {{"channels", kClasses}, {"classifier", 1}});
  auto graph = builder.finish(value);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return with_loss(std::move(*graph));
}

// A network with its state and program. The test provides the batches.
struct TrainedGraph {
  Graph graph;
  Program program;
  std::optional<State> state;
  std::optional<AlignedMemory> arena;
  ThreadPool pool{2};
  std::optional<Executor> executor;

  TrainedGraph(const Graph& plain, const char* format_name, int64_t micro_batch,
               int micro_batches) {
    const Format format = *parse_format(format_name);
    graph = in_format(plain, format);
    state.emplace(
        std::move(*State::create(training_layout(graph, format, OptimizerKind::kMomentum))));
    initialise(graph, format, 3, *state);
    const kernels::KernelTable table = kernels::select_kernels(best_isa());
    auto compiled = compile(graph,
                            {.micro_batch_size = micro_batch,
                             .micro_batches = micro_batches,
                             .exponents = training_exponents(format),
                             .format = format},
                            {&table, 2});
    EXPECT_TRUE(compiled.ok()) << (compiled.ok() ? "" : compiled.error().message);
    program = std::move(*compiled);
    spread_out(program);
    arena.emplace(std::move(*AlignedMemory::create(program.arena_bytes)));
    std::memset(arena->data(), 0xA5, static_cast<size_t>(program.arena_bytes));
    executor.emplace(graph, program, *state, arena->span(), pool, best_isa());
  }

  StepResult step(std::span<const void* const> batch, double rate, int64_t step = 0) {
    const auto examples = program.options.micro_batch_size * program.options.micro_batches;
    const auto result =
        executor->train_step(batch, {.learning_rate = rate,
                                     .momentum = 0.9,
                                     .gradient_scale = 1 / static_cast<double>(examples),
                                     .step = step});
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return result.ok() ? *result : StepResult{};
  }
};

TEST(Inputs, IndicesAreEmbeddedAndTrained) {
  constexpr int64_t kRowsAtOnce = 32;
  for (const char* format : {"bfp8", "bfp8-text", "bfp:g=8,gr=stochastic", "dfp8"}) {
    TrainedGraph network(embedding_network(), format, kRowsAtOnce / 2, 2);
    double first = 0, last = 0;
    for (int step = 0; step < 400; ++step) {
      std::vector<uint8_t> pixels(4 * kRowsAtOnce, 128);
      std::vector<int32_t> tokens(kTokens * kRowsAtOnce), labels(kRowsAtOnce);
      for (int64_t i = 0; i < kRowsAtOnce; ++i) {
        int64_t sum = 0;
        for (int64_t t = 0; t < kTokens; ++t) {
          const auto token = static_cast<int32_t>(
              random_bits(4, RandomStream::kShuffle, step, i * kTokens + t) % kRows);
          tokens[i * kTokens + t] = token;
          sum += token;
        }
        labels[i] = static_cast<int32_t>(sum * kClasses / (kTokens * kRows));
      }
      const std::array<const void*, 3> batch = {pixels.data(), tokens.data(), labels.data()};
      const double loss = network.step(batch, 0.05, step).loss;
      (step < 20 ? first : last) += step < 20 || step >= 380 ? loss / 20 : 0;
    }
    EXPECT_LT(last, 0.5 * first) << format;
  }
}

TEST(Inputs, TheOneThatABatchLacksIsNamed) {
  TrainedGraph network(embedding_network(), "bfp8", 2, 1);
  const std::vector<uint8_t> pixels(8);
  const auto result = network.executor->train_step(std::array<const void*, 1>{pixels.data()}, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "the network wants 'tokens', which the batch lacks");
}

TEST(Inputs, OpsSayWhatTheyRead) {
  GraphBuilder builder("wrong", Shape{4, 4, 1});
  const int value =
      builder.add(kEmbedding, "embedding", {builder.input()}, {{"rows", 3}, {"channels", 4}});
  EXPECT_FALSE(builder.finish(value).ok());
  GraphBuilder other("wrong", Shape{4, 4, 1});
  const int tokens = other.add_input("tokens", Shape{4}, Element::kIndex);
  const auto graph = other.finish(other.add(ops::kRelu, "relu1", {tokens}));
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().message,
            "node 'relu1' (relu): input 0, 'tokens', is indices; wants mantissas");
}

// linear(relu(linear(x))) with the same weights both times, or with equal ones.
Graph twice(bool shared, int64_t size) {
  GraphBuilder builder("twice", Shape{size, 1, 1});
  int value = builder.add(ops::kNormaliseInput, "normalise", {builder.input()});
  value = builder.add(ops::kFlatten, "flatten", {value});
  const Attributes attributes = {{"channels", size}};
  const int first = builder.add(ops::kLinear, "first", {value}, attributes);
  value = builder.add(ops::kTanh, "tanh", {first});
  value = shared ? builder.add_sharing(first, ops::kLinear, "second", {value}, attributes)
                 : builder.add(ops::kLinear, "second", {value}, attributes);
  value = builder.add(ops::kTanh, "tanh2", {value});
  value = builder.add(ops::kLinear, "classifier", {value}, {{"channels", 3}, {"classifier", 1}});
  auto graph = builder.finish(value);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return with_loss(std::move(*graph));
}

std::span<std::byte> bytes_of(TrainedGraph& network, const std::string& tensor) {
  const auto& tensors = network.state->layout().tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name == tensor) return network.state->bytes(static_cast<int>(i));
  }
  ADD_FAILURE() << tensor;
  return {};
}

// The sums of a parameter after a step.
std::vector<int64_t> sums_of(const TrainedGraph& network, const std::string& parameter) {
  for (size_t i = 0; i < network.program.instructions.size(); ++i) {
    const Instruction& instruction = network.program.instructions[i];
    if (!updates_parameter(instruction) || instruction.name != parameter) continue;
    const Tensor& sums = network.executor->context(static_cast<int>(i)).parameters[0].gradient;
    EXPECT_EQ(sums.type, DataType::kInt64);
    return {sums.as<int64_t>(), sums.as<int64_t>() + sums.count()};
  }
  ADD_FAILURE() << parameter;
  return {};
}

// Updates overwrite int64 sums. This leaves the updates of a program out.
void leave_out_updates(TrainedGraph& network) {
  for (Instruction& instruction : network.program.instructions) {
    if (updates_parameter(instruction)) instruction.row = &ops::kGradientNorm.integer.forward;
  }
  network.executor.emplace(network.graph, network.program, *network.state, network.arena->span(),
                           network.pool, best_isa());
}

TEST(SharedParameters, GradientsAreTheSumOverTheirUses) {
  for (const char* format : {"bfp8", "bfp8-text", "bfp:a=12", "dfp8"}) {
    for (const int64_t size : {1, 7, 32}) {
      for (const int micro_batches : {1, 3}) {
        TrainedGraph shared(twice(true, size), format, 4, micro_batches);
        TrainedGraph apart(twice(false, size), format, 4, std::max(2, micro_batches));
        // With one micro-batch sums may be int32. So there are two, the second a copy of the first.
        const int repeats = micro_batches == 1 ? 2 : 1;
        for (const char* name : {"first", "classifier"}) {
          for (const char* part : {".weights", ".weights.exponent", ".weights.accumulator"}) {
            const std::span<std::byte> from = bytes_of(shared, std::string(name) + part);
            std::ranges::copy(from, bytes_of(apart, std::string(name) + part).begin());
            if (std::string(name) != "first") continue;
            std::ranges::copy(from, bytes_of(apart, std::string("second") + part).begin());
          }
        }
        leave_out_updates(shared);
        leave_out_updates(apart);
        const int64_t examples = 4 * micro_batches;
        std::vector<uint8_t> pixels;
        std::vector<int32_t> labels;
        for (int repeat = 0; repeat < repeats; ++repeat) {
          for (int64_t i = 0; i < examples * size; ++i) {
            pixels.push_back(static_cast<uint8_t>(random_bits(6, RandomStream::kAugment, 1, i)));
          }
          for (int64_t i = 0; i < examples; ++i) labels.push_back(static_cast<int32_t>(i % 3));
        }
        const auto batch = inputs(pixels, labels);
        shared.step(batch, 0);
        apart.step(batch, 0);
        for (const char* part : {".weights", ".bias"}) {
          const std::vector<int64_t> sums = sums_of(shared, std::string("first") + part);
          const std::vector<int64_t> a = sums_of(apart, std::string("first") + part);
          const std::vector<int64_t> b = sums_of(apart, std::string("second") + part);
          ASSERT_TRUE(std::ranges::any_of(b, [](int64_t sum) { return sum != 0; }));
          for (size_t i = 0; i < sums.size(); ++i) {
            ASSERT_EQ(sums[i] * repeats, a[i] + b[i]) << format << " " << size << part << " " << i;
          }
        }
      }
    }
  }
}

TEST(SharedParameters, HaveOneUpdateAndLearn) {
  for (const char* format : {"bfp8", "bfp:g=8", "dfp8", "fp32"}) {
    Harness harness(
        {.format = format, .batch_size = 64, .micro_batch_size = 32, .learning_rate = 0.01}, [] {
          GraphBuilder builder("tied", Shape{28, 28, 1});
          int value = builder.add(ops::kNormaliseInput, "normalise", {builder.input()});
          value = builder.add(ops::kFlatten, "flatten", {value});
          value = builder.add(ops::kLinear, "in", {value}, {{"channels", 32}});
          const int first = builder.add(ops::kLinear, "cell1", {value}, {{"channels", 32}});
          value = builder.add(ops::kRelu, "relu1", {first});
          for (int i = 2; i < 4; ++i) {
            const std::string number = std::to_string(i);
            value = builder.add_sharing(first, ops::kLinear, "cell" + number, {value},
                                        {{"channels", 32}});
            value = builder.add(ops::kRelu, "relu" + number, {value});
          }
          value = builder.add(ops::kLinear, "classifier", {value}, {{"channels", 10}});
          return std::move(*builder.finish(value));
        }());
    const auto& instructions = harness.program().instructions;
    EXPECT_EQ(std::ranges::count_if(instructions,
                                    [](const Instruction& i) {
                                      return updates_parameter(i) && i.name == "cell1.weights";
                                    }),
              1);
    const double before = harness.train(5) / 5;
    harness.train(150);
    EXPECT_LT(harness.train(5) / 5, 0.6 * before) << format;
  }
}

TEST(SharedParameters, MustFit) {
  GraphBuilder builder("misfit", Shape{4, 4, 1});
  int value = builder.add(ops::kFlatten, "flatten",
                          {builder.add(ops::kNormaliseInput, "normalise", {builder.input()})});
  value = builder.add(ops::kLinear, "first", {value}, {{"channels", 8}});
  value = builder.add_sharing(value, ops::kLinear, "second", {value}, {{"channels", 8}});
  const auto graph = builder.finish(value);
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().message, "node 'second' (linear): cannot use the parameters of 'first'");
}

TEST(UntrainedParameters, StayAndTheOthersLearn) {
  for (const char* format : {"bfp8", "dfp8", "bfp8-text", "fp32"}) {
    Graph graph = *build_model("lenet5", {.channel_means = {73}});
    for (Parameter& parameter : graph.parameters) {
      parameter.trained = !parameter.name.starts_with("conv1");
    }
    Harness harness({.format = format, .batch_size = 32, .micro_batch_size = 32}, graph);
    const auto& tensors = harness.state().layout().tensors;
    std::map<std::string, std::vector<std::byte>> before;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto bytes = harness.state().bytes(static_cast<int>(i));
      before[tensors[i].name] = {bytes.begin(), bytes.end()};
      EXPECT_NE(tensors[i].name, "conv1.weights.accumulator");
    }
    const double loss = harness.train(5) / 5;
    harness.train(60);
    EXPECT_LT(harness.train(5) / 5, 0.8 * loss) << format;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].name.ends_with(".weights")) continue;
      const auto bytes = harness.state().bytes(static_cast<int>(i));
      const bool same = std::ranges::equal(bytes, before[tensors[i].name]);
      EXPECT_EQ(same, tensors[i].name == "conv1.weights") << format << " " << tensors[i].name;
    }
  }
}

TEST(UntrainedParameters, AreAllOfANodeOrNone) {
  Graph graph = *build_model("lenet5", {});
  graph.parameters[1].trained = false;
  const kernels::KernelTable table = kernels::select_kernels(Isa::kScalar);
  const auto program = compile(graph, {.micro_batch_size = 2}, {&table, 1});
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.error().message.find("trains only some of its parameters"), std::string::npos);
}

// A factor of zero; and a factor of two with half of the learning rate.
TEST(RateFactors, MultiplyTheLearningRate) {
  for (const char* format : {"bfp8", "fp32"}) {
    const auto weights = [&](double factor, double rate) {
      Graph graph = *build_model("mlp", {.channel_means = {73}});
      for (Parameter& parameter : graph.parameters) parameter.rate_factor = factor;
      Harness harness({.format = format, .learning_rate = rate}, graph);
      const std::string start = harness.weights_sha256();
      harness.train(4);
      return harness.weights_sha256();
    };
    EXPECT_EQ(weights(2, 0.015625), weights(1, 0.03125)) << format;
    EXPECT_NE(weights(2, 0.015625), weights(1, 0.015625)) << format;
  }
}

TEST(Classes, AThousandOfThem) {
  for (const char* format : {"bfp8", "fp32"}) {
    Graph graph = *build_model("mlp", {.classes = 1000});
    TrainedGraph network(graph, format, 64, 1);
    std::vector<uint8_t> pixels(784 * 64);
    std::vector<int32_t> labels(64);
    for (size_t i = 0; i < pixels.size(); ++i) {
      pixels[i] = static_cast<uint8_t>(random_bits(2, RandomStream::kAugment, 0, i));
    }
    for (int i = 0; i < 64; ++i) labels[i] = 15 * i + 40;
    EXPECT_NEAR(network.step(inputs(pixels, labels), 0.02).loss, std::log(1000), 1) << format;
    for (int step = 0; step < 150; ++step) network.step(inputs(pixels, labels), 0.02, step);
    EXPECT_GT(network.step(inputs(pixels, labels), 0).correct, 55) << format;
  }
}

// Searches go back and forth through a network. They visit each value a few times, not once for
// each of the 2^1000 paths to it.
TEST(Graphs, AChainOfDiamondsCompilesAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  for (const char* name : {"bfp8", "bfp:a=4,unsigned=yes", "dfp8"}) {
    GraphBuilder builder("diamonds", Shape{4, 4, 1});
    int value = builder.add(ops::kNormaliseInput, "normalise", {builder.input()});
    for (int i = 0; i < 1000; ++i) {
      const std::string number = std::to_string(i);
      const int left = builder.add(ops::kRelu, "left" + number, {value});
      const int right = builder.add(ops::kMaxPool, "right" + number, {value}, {{"window", 1}});
      value = builder.add(ops::kAdd, "sum" + number, {left, right});
    }
    value = builder.add(ops::kFlatten, "flatten", {value});
    value = builder.add(ops::kLinear, "classifier", {value}, {{"channels", 10}});
    const Format format = *parse_format(name);
    const Graph graph = in_format(with_loss(*builder.finish(value)), format);
    const kernels::KernelTable table = kernels::select_kernels(Isa::kScalar);
    const auto program = compile(
        graph, {.micro_batch_size = 2, .exponents = training_exponents(format), .format = format},
        {&table, 1});
    EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
}

// Two outputs with a loss each: a class, and two numbers whose targets are in the batch.
Graph two_headed_network(int exponent) {
  GraphBuilder builder("heads", Shape{3, 3, 1});
  const int numbers = builder.add_numbers("numbers", Shape{4}, exponent);
  const int labels = builder.add_input("labels", Shape{}, Element::kIndex);
  const int targets = builder.add_numbers("targets", Shape{2}, -12);
  int pixels = builder.add(ops::kNormaliseInput, "normalise", {builder.input()});
  pixels = builder.add(ops::kFlatten, "flatten", {pixels});
  pixels = builder.add(ops::kLinear, "pixels1", {pixels}, {{"channels", 16}});
  int value = builder.add(ops::kQuantiseInput, "quantise", {numbers});
  value = builder.add(ops::kLinear, "numbers1", {value}, {{"channels", 16}});
  value = builder.add(ops::kAdd, "sum", {value, pixels});
  value = builder.add(ops::kRelu, "relu", {value});
  const int classes = builder.add(ops::kLinear, "classes", {value}, {{"channels", 3}});
  const int results = builder.add(ops::kLinear, "results", {value}, {{"channels", 2}});
  builder.add_loss(ops::kSoftmaxCrossEntropy, "class_loss", {classes, labels});
  builder.add_loss(ops::kRegressionError, "regression_loss", {results, targets});
  auto graph = builder.finish({classes, results});
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return std::move(*graph);
}

// The class is the index of the largest of three pixels; the targets are sums of numbers.
struct TwoHeadedBatch {
  std::vector<uint8_t> pixels;
  std::vector<int16_t> numbers, targets;
  std::vector<int32_t> labels;

  TwoHeadedBatch(int64_t examples, uint64_t key, int scale) {
    for (int64_t n = 0; n < examples; ++n) {
      const uint64_t bits = random_bits(key, RandomStream::kShuffle, 0, static_cast<uint64_t>(n));
      const auto label = static_cast<int32_t>(uniform_below(bits, 3));
      labels.push_back(label);
      for (int i = 0; i < 9; ++i) pixels.push_back(i % 3 == label ? 200 : 40);
      int sum = 0;
      for (int i = 0; i < 4; ++i) {
        const int number = static_cast<int>(bits >> (8 * i + 8) & 255) - 128;
        numbers.push_back(static_cast<int16_t>(number * scale));
        sum += number;
      }
      targets.push_back(static_cast<int16_t>(sum * 8));
      targets.push_back(static_cast<int16_t>(-sum * 4));
    }
  }
  std::array<const void*, 4> inputs() const {
    return {pixels.data(), numbers.data(), labels.data(), targets.data()};
  }
};

TEST(Losses, EachHasItsTotalsAndBothLearn) {
  for (const char* format : {"bfp8", "dfp8", "bfp:g=8", "fp32"}) {
    SCOPED_TRACE(format);
    TrainedGraph trained(two_headed_network(-7), format, 32, 2);
    StepResult first, last;
    for (int64_t step = 0; step < 200; ++step) {
      const TwoHeadedBatch batch(64, static_cast<uint64_t>(step % 8), 1);
      last = trained.step(batch.inputs(), 0.02, step);
      if (step == 0) first = last;
    }
    EXPECT_GT(first.losses[0].loss_q24, 20 * last.losses[0].loss_q24);
    EXPECT_GT(first.losses[1].loss_q24, 20 * last.losses[1].loss_q24);
    EXPECT_EQ(last.losses[0].correct, 64);
    EXPECT_EQ(last.losses[1].correct, 0);
    EXPECT_EQ(last.loss_q24, last.losses[0].loss_q24);
    const double nats =
        static_cast<double>(last.losses[0].loss_q24) * ops::kSoftmaxCrossEntropy.loss_unit;
    const double squares = static_cast<double>(last.losses[1].loss_q24) * 0x1p-24;
    EXPECT_DOUBLE_EQ(last.loss, nats / 64 + squares / 64);
  }
}

// Numbers are mantissas times a power of two: the same numbers give the same bits.
TEST(Numbers, AreWorthTheSameAtAnotherExponent) {
  const auto hash = [](int exponent, int scale) {
    TrainedGraph trained(two_headed_network(exponent), "bfp8", 32, 2);
    for (int64_t step = 0; step < 5; ++step) {
      const TwoHeadedBatch batch(64, static_cast<uint64_t>(step), scale);
      trained.step(batch.inputs(), 0.02, step);
    }
    return trained.state->sha256(StateGroup::kParameter);
  };
  EXPECT_EQ(hash(-7, 1), hash(-9, 4));
  EXPECT_NE(hash(-7, 1), hash(-9, 1));
}

TEST(Numbers, AreReadByOpsThatTakeThemAlone) {
  GraphBuilder builder("numbers", Shape{3, 3, 1});
  const int numbers = builder.add_numbers("numbers", Shape{4}, 0);
  builder.add(ops::kLinear, "linear", {numbers}, {{"channels", 2}});
  EXPECT_NE(builder.finish(1).error().message.find("is numbers; wants mantissas"),
            std::string::npos);
}

TEST(Losses, AreAtMostEightAndLosses) {
  const auto message = [](int losses, const Op& op) {
    GraphBuilder builder("many", Shape{2, 2, 1});
    const int labels = builder.add_input("labels", Shape{}, Element::kIndex);
    int value = builder.add(ops::kNormaliseInput, "normalise", {builder.input()});
    value = builder.add(ops::kFlatten, "flatten", {value});
    for (int i = 0; i < losses; ++i) {
      const std::string number = std::to_string(i);
      value = builder.add(ops::kLinear, "linear" + number, {value}, {{"channels", 2}});
      if (&op == &ops::kRelu) {
        builder.add_loss(op, "loss" + number, {value});
      } else {
        builder.add_loss(op, "loss" + number, {value, labels});
      }
    }
    return builder.finish(value).error().message;
  };
  EXPECT_NE(message(9, ops::kSoftmaxCrossEntropy).find("at most 8"), std::string::npos);
  EXPECT_NE(message(1, ops::kRelu).find("is no loss"), std::string::npos);
}

TEST(Graphs, WhatIsNoneIsRefused) {
  const Graph good = *build_model("lenet5", {});
  EXPECT_TRUE(verify(good).ok());
  const auto message = [&](const std::function<void(Graph&)>& damage) {
    Graph graph = good;
    damage(graph);
    const Status status = verify(graph);
    return status.ok() ? std::string("accepted") : status.error().message;
  };
  EXPECT_NE(message([](Graph& g) { std::swap(g.nodes[1], g.nodes[2]); }).find("reads a value"),
            std::string::npos);
  EXPECT_NE(message([](Graph& g) { g.nodes[2].parameters = {99}; }).find("does not exist"),
            std::string::npos);
  EXPECT_NE(message([](Graph& g) { g.nodes[1].attributes = {}; }).find("wants channels"),
            std::string::npos);
  EXPECT_NE(message([](Graph& g) { g.nodes[1].outputs = {0}; }).find("exists already"),
            std::string::npos);
  EXPECT_NE(message([](Graph& g) { g.values[3].shape = Shape{7}; }).find("another shape"),
            std::string::npos);
  EXPECT_NE(message([](Graph& g) { g.outputs = {}; }).find("no result"), std::string::npos);
  EXPECT_NE(message([](Graph& g) { g.inputs = {}; }).find("no input"), std::string::npos);
  EXPECT_NE(message([](Graph& g) { g.losses = {1}; }).find("not a node whose first output"),
            std::string::npos);
}

}  // namespace
}  // namespace mantissa::testing
