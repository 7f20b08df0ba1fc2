// Values whose rows have exponents of their own (blocks=token): their definition; the same bits on
// any threads and instruction set; and no bit of a row depends on padding or on other examples.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "graph/input_shapes.h"
#include "infer/frozen_network.h"
#include "infer/programs.h"
#include "models/bert.h"
#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/wide_values.h"
#include "runtime/named_parameters.h"
#include "tests/harness.h"
#include "tests/operators/gradient_check.h"

namespace mantissa::testing {
namespace {

constexpr const char* kFormat = "bfp:block=channel,blocks=token";
constexpr int64_t kVocabulary = 19, kSequence = 12;

// Mantissas and row exponents of a network's result.
struct Rows {
  std::vector<int64_t> mantissas;
  std::vector<int> exponents;
  bool operator==(const Rows&) const = default;

  Rows first(int64_t rows) const {
    const int64_t channels = std::ssize(mantissas) / std::ssize(exponents);
    return {{mantissas.begin(), mantissas.begin() + rows * channels},
            {exponents.begin(), exponents.begin() + rows}};
  }
};

Rows rows_of(const Tensor& tensor) {
  Rows rows;
  const ops::Mantissas from(tensor);
  for (int64_t i = 0; i < tensor.count(); ++i) rows.mantissas.push_back(from[i]);
  for (int64_t row = 0; row < tensor.count() / tensor.shape.last(); ++row) {
    rows.exponents.push_back(tensor.row_exponent(row));
  }
  return rows;
}

class RowNetwork {
 public:
  explicit RowNetwork(const Graph& network, const char* format = kFormat)
      : format_(*parse_format(format)) {
    graph_ = freeze_graph(in_format(network, format_));
    state_.emplace(std::move(*State::create(frozen_layout(graph_, format_))));
    for (int p = 0; p < std::ssize(graph_.parameters); ++p) {
      std::vector<float> numbers(graph_.parameters[p].shape.count());
      for (size_t i = 0; i < numbers.size(); ++i) {
        const uint64_t bits = random_bits(5, RandomStream::kShuffle, static_cast<uint32_t>(p), i);
        // Channels of several sizes.
        const int size = static_cast<int>(i / graph_.parameters[p].shape.last() % 5);
        numbers[i] = std::ldexp(static_cast<float>(bits % 2001) - 1000, -10 - size);
      }
      const NamedParameter parameter{.name = graph_.parameters[p].name,
                                     .type = DataType::kFloat,
                                     .shape = graph_.parameters[p].shape,
                                     .numbers = std::as_bytes(std::span(numbers))};
      EXPECT_TRUE(take_named_parameters(graph_, format_, {&parameter, 1}, *state_).ok());
    }
  }

  // The result for examples of `sequence` tokens and these input tensors.
  Rows run(int64_t sequence, const std::vector<std::vector<int32_t>>& inputs, int threads = 1,
           Isa isa = best_isa(), int output = 0) {
    std::vector<Shape> shapes;
    for (const int input : graph_.inputs) {
      const Shape& shape = graph_.values[input].shape;
      shapes.push_back(shape.rank == 0 ? shape : Shape{sequence});
    }
    const Graph graph = *with_input_shapes(graph_, shapes);
    const int64_t batch = std::ssize(inputs[0]) / sequence;
    ThreadPool pool(threads);
    const kernels::KernelTable table = kernels::select_kernels(isa);
    const auto program =
        compile(graph,
                {.kind = ProgramKind::kInference,
                 .micro_batch_size = batch,
                 .with_loss = false,
                 .exponents = format_.tensor_values ? ExponentMode::kExact : ExponentMode::kFixed,
                 .format = format_},
                {&table, threads});
    EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message);
    const Status verified = verify(graph, *program);
    EXPECT_TRUE(verified.ok()) << (verified.ok() ? "" : verified.error().message);
    const auto arena = std::move(*AlignedMemory::create(program->arena_bytes));
    std::memset(arena.data(), 0xA5, static_cast<size_t>(program->arena_bytes));
    arena_bytes_ = program->arena_bytes;
    Executor executor(graph, *program, *state_, arena.span(), pool, isa);
    std::vector<const void*> pointers;
    for (const auto& input : inputs) pointers.push_back(input.data());
    EXPECT_TRUE(executor.infer(pointers).ok());
    return rows_of(executor.output(output));
  }

  const Graph& graph() const { return graph_; }
  // Multiplies a parameter by 2^by.
  void scale(int parameter, int by) {
    const int tensor = state_->layout().parameters[parameter].exponent;
    for (int64_t block = 0; block < state_->layout().tensors[tensor].shape.count(); ++block) {
      state_->data<int16_t>(tensor)[block] += static_cast<int16_t>(by);
    }
  }
  // Sums of products of a row and rows of a parameter, exact in double.
  std::vector<double> products(const std::vector<double>& row, int parameter, int64_t first,
                               int64_t count) const {
    std::vector<double> sums(count, 0);
    for (int64_t o = 0; o < count; ++o) {
      const int64_t at = (first + o) * std::ssize(row);
      for (int64_t i = 0; i < std::ssize(row); ++i) sums[o] += row[i] * number(parameter, at + i);
    }
    return sums;
  }
  int64_t arena_bytes() const { return arena_bytes_; }
  // Gives all weights of a parameter of 8 bits the same mantissa, at the exponents that they have.
  void fill(int parameter, int8_t mantissa) {
    const int tensor = state_->layout().parameters[parameter].mantissa;
    std::fill_n(state_->data<int8_t>(tensor), state_->layout().tensors[tensor].shape.count(),
                mantissa);
    const int exponent = state_->layout().parameters[parameter].exponent;
    std::fill_n(state_->data<int16_t>(exponent), state_->layout().tensors[exponent].shape.count(),
                static_cast<int16_t>(-7));
  }
  double number(int parameter, int64_t i) const {
    const ParameterState& p = state_->layout().parameters[parameter];
    const StateTensor& tensor = state_->layout().tensors[p.mantissa];
    const int64_t blocks = state_->layout().tensors[p.exponent].shape.count();
    const int64_t block = i / (tensor.shape.count() / blocks);
    const int64_t mantissa = tensor.type == DataType::kInt8 ? state_->data<int8_t>(p.mantissa)[i]
                                                            : state_->data<int16_t>(p.mantissa)[i];
    return std::ldexp(static_cast<double>(mantissa), state_->data<int16_t>(p.exponent)[block]);
  }

 private:
  Format format_;
  Graph graph_;
  std::optional<State> state_;
  int64_t arena_bytes_ = 0;  // of the last run
};

Graph small_encoder() {
  return *bert_encoder("bert",
                       {.layers = 2,
                        .channels = 16,
                        .heads = 2,
                        .inner = 24,
                        .vocabulary = kVocabulary,
                        .positions = 64},
                       kSequence);
}

std::vector<int32_t> random_tokens(int64_t count, uint64_t seed) {
  std::vector<int32_t> tokens(count);
  for (int64_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<int32_t>(random_bits(seed, RandomStream::kShuffle, 1, i) % kVocabulary);
  }
  return tokens;
}

// Compares the mantissas of a row with real numbers at its exponent. Returns the largest.
int64_t expect_row(const std::vector<double>& numbers, const Rows& rows, int64_t row, int bits) {
  const auto channels = std::ssize(numbers);
  const int exponent = rows.exponents[row];
  int64_t largest = 0;
  for (int64_t i = 0; i < channels; ++i) {
    const int64_t mantissa = rows.mantissas[row * channels + i];
    const double wanted = std::nearbyint(std::ldexp(numbers[i], -exponent));
    EXPECT_EQ(mantissa, std::clamp<double>(wanted, -mantissa_limit(bits), mantissa_limit(bits)))
        << row << ", " << i;
    largest = std::max(largest, std::abs(mantissa));
  }
  return largest;
}

constexpr int64_t kFeatures = 24, kUnits = 20;

// A linear layer of rows of a table. Its result has `bits`, and a reader, so it is narrowed.
Graph linear_of_table(int64_t bits, int64_t bias = 0) {
  GraphBuilder builder("linear");
  const int tokens = builder.add_input("tokens", Shape{kSequence}, Element::kIndex);
  const int embedded = builder.add(ops::kEmbedding, "embedding", {tokens},
                                   {{"rows", kVocabulary}, {"channels", kFeatures}});
  const int linear = builder.add(ops::kLinear, "linear", {embedded},
                                 {{"channels", kUnits}, {"bias", bias}, {"least_bits", bits}});
  const int reader = builder.add(ops::kAdd, "twice", {linear, linear});
  return *builder.finish({linear, reader});
}

// Sums of products of a row. Rows of the table keep their mantissas.
std::vector<double> sums_of(const RowNetwork& net, int32_t token) {
  std::vector<double> row(kFeatures);
  for (int64_t i = 0; i < kFeatures; ++i) row[i] = net.number(0, token * kFeatures + i);
  return net.products(row, 1, 0, kUnits);
}

TEST(RowExponents, OfALinearLayerAreThoseOfItsRows) {
  for (const int bits : {8, 16}) {
    RowNetwork net(linear_of_table(bits == 8 ? 0 : bits));
    const std::vector<int32_t> ids = random_tokens(3 * kSequence, 1);
    const Rows rows = net.run(kSequence, {ids});
    for (int64_t row = 0; row < std::ssize(ids); ++row) {
      const int64_t largest = expect_row(sums_of(net, ids[row]), rows, row, bits);
      EXPECT_GE(largest, int64_t{1} << (bits - 2)) << "row " << row << " wastes a bit";
    }
  }
}

// The row at the exponent of its own maximum in 16 bits.
std::vector<double> in_16_bits(std::vector<double> row) {
  double most = 0;
  for (const double number : row) most = std::max(most, std::abs(number));
  int exponent = 0;
  while (std::nearbyint(std::ldexp(most, -exponent)) > 32767) ++exponent;
  while (std::nearbyint(std::ldexp(most, -exponent + 1)) <= 32767) --exponent;
  for (double& number : row) {
    number = std::ldexp(std::nearbyint(std::ldexp(number, -exponent)), exponent);
  }
  return row;
}

// A layer with input_bits reads 16 bits as they are; another gets them requantised to 8.
TEST(RowExponents, ALayerMayReadRowsOf16Bits) {
  for (const int64_t input_bits : {0, 16}) {
    GraphBuilder builder("wide");
    const int tokens = builder.add_input("tokens", Shape{kSequence}, Element::kIndex);
    const int embedded = builder.add(ops::kEmbedding, "embedding", {tokens},
                                     {{"rows", kVocabulary}, {"channels", kFeatures}});
    const int first = builder.add(ops::kLinear, "first", {embedded},
                                  {{"channels", kUnits}, {"bias", 0}, {"least_bits", 16}});
    const int second = builder.add(
        ops::kLinear, "second", {first},
        {{"channels", kUnits}, {"bias", 0}, {"least_bits", 16}, {"input_bits", input_bits}});
    const int reader = builder.add(ops::kAdd, "twice", {second, second});
    const Graph graph = *builder.finish({second, reader});
    const Graph with_format = in_format(graph, *parse_format(kFormat));
    EXPECT_EQ(std::ranges::count(with_format.nodes, &ops::kRequantise, &Node::op),
              input_bits == 16 ? 0 : 1);
    // Where a value has one exponent, layers read 8 bits.
    EXPECT_EQ(std::ranges::count(in_format(graph, Format{}).nodes, &ops::kRequantise, &Node::op),
              1);
    if (input_bits == 0) continue;
    RowNetwork net(graph);
    const std::vector<int32_t> ids = random_tokens(kSequence, 1);
    const Rows rows = net.run(kSequence, {ids});
    for (int64_t row = 0; row < std::ssize(ids); ++row) {
      const std::vector<double> exact = sums_of(net, ids[row]);
      expect_row(net.products(in_16_bits(exact), 2, 0, kUnits), rows, row, 16);
    }
  }
}

// Logits of so many classes that their weights are multiplied in slices, the last of them narrow.
// They read a table in 8 bits, or a layer's 16.
constexpr int64_t kWide = 128, kSlice = 4096, kClasses = 8 * kSlice + 5;

Graph many_logits(bool is_wide) {
  GraphBuilder builder("logits");
  const int tokens = builder.add_input("tokens", Shape{kSequence}, Element::kIndex);
  int last = builder.add(ops::kEmbedding, "embedding", {tokens},
                         {{"rows", kVocabulary}, {"channels", kWide}});
  if (is_wide) {
    last = builder.add(ops::kLinear, "first", {last},
                       {{"channels", kWide}, {"bias", 0}, {"least_bits", 16}});
  }
  return *builder.finish(
      builder.add(ops::kLinear, "logits", {last},
                  {{"channels", kClasses}, {"bias", 0}, {"input_bits", is_wide ? 16 : 0}}));
}

TEST(RowExponents, LogitsOfManyClassesAreMultipliedInSlices) {
  for (const bool is_wide : {false, true}) {
    RowNetwork net(many_logits(is_wide));
    const int last = is_wide ? 2 : 1;
    const std::vector<int32_t> ids = random_tokens(4 * kSequence, 6);
    const Rows rows = net.run(kSequence, {ids});
    EXPECT_EQ(net.run(kSequence, {ids}, 3), rows);
    for (int64_t row = 0; row < std::ssize(ids); ++row) {
      std::vector<double> input(kWide, 0);
      for (int64_t i = 0; i < kWide; ++i) input[i] = net.number(0, ids[row] * kWide + i);
      if (is_wide) input = in_16_bits(net.products(input, 1, 0, kWide));
      for (const auto& [first, count] :
           {std::pair<int64_t, int64_t>{0, 40}, {kSlice - 9, 20}, {kClasses - 9, 9}}) {
        const std::vector<double> sums = net.products(input, last, first, count);
        for (int64_t o = 0; o < count; ++o) {
          ASSERT_EQ(static_cast<double>(rows.mantissas[row * kClasses + first + o]),
                    std::nearbyint(std::ldexp(sums[o], -rows.exponents[row])))
              << row << ", " << first + o;
        }
      }
    }
    // A row is computed without a packed copy of all weights.
    EXPECT_EQ(net.run(1, {{ids[0]}}), rows.first(1));
    EXPECT_LT(net.arena_bytes() - kClasses * int64_t{sizeof(int32_t)}, kClasses * kWide / 2);
  }
}

// More classes than a gradient could add up in int32: inference adds up channels alone.
TEST(RowExponents, LogitsOfAnyNumberOfClassesAreInferred) {
  constexpr int64_t kFew = 8;
  for (const int64_t classes : {70'000, 152'000}) {
    GraphBuilder builder("logits");
    const int tokens = builder.add_input("tokens", Shape{kSequence}, Element::kIndex);
    const int table = builder.add(ops::kEmbedding, "embedding", {tokens},
                                  {{"rows", kVocabulary}, {"channels", kFew}});
    RowNetwork net(*builder.finish(
        builder.add(ops::kLinear, "logits", {table}, {{"channels", classes}, {"bias", 0}})));
    const std::vector<int32_t> ids = random_tokens(kSequence, 6);
    const Rows rows = net.run(kSequence, {ids});
    EXPECT_EQ(net.run(1, {{ids[0]}}, 2), rows.first(1));
    for (int64_t row = 0; row < kSequence; ++row) {
      std::vector<double> input(kFew);
      for (int64_t i = 0; i < kFew; ++i) input[i] = net.number(0, ids[row] * kFew + i);
      const std::vector<double> sums = net.products(input, 1, 0, classes);
      for (int64_t o = 0; o < classes; o += row == 0 ? 1 : 997) {
        ASSERT_EQ(static_cast<double>(rows.mantissas[row * classes + o]),
                  std::nearbyint(std::ldexp(sums[o], -rows.exponents[row])))
            << row << ", " << o;
      }
    }
  }
}

// Gates have one exponent for all rows of an image, which rows have not.
TEST(RowExponents, AGateIsRefused) {
  GraphBuilder builder("gate");
  const int tokens = builder.add_input("tokens", Shape{3}, Element::kIndex);
  const int rows =
      builder.add(ops::kEmbedding, "embedding", {tokens}, {{"rows", 5}, {"channels", 4}});
  const int first = builder.add(ops::kSlice, "first", {rows}, {{"position", 0}, {"channels", 4}});
  const int gate = builder.add(ops::kFlatten, "gate", {first});
  const int last = builder.add(ops::kMultiply, "product", {rows, gate});
  const Format format = *parse_format(kFormat);
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  const auto program = compile(in_format(*builder.finish(last), format),
                               {.kind = ProgramKind::kInference,
                                .with_loss = false,
                                .exponents = ExponentMode::kFixed,
                                .format = format},
                               {&table, 1});
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.error().message.find("wants two inputs of one shape"), std::string::npos);
}

TEST(RowExponents, ABiasIsAddedToRowsOfSmallNumbers) {
  RowNetwork net(linear_of_table(0, 1));
  net.scale(0, -95);
  const std::vector<int32_t> ids = random_tokens(kSequence, 1);
  const Rows rows = net.run(kSequence, {ids});
  std::vector<double> bias;
  for (int64_t o = 0; o < kUnits; ++o) bias.push_back(net.number(2, o));
  for (int64_t row = 0; row < std::ssize(ids); ++row) expect_row(bias, rows, row, 8);
}

// A row of the rows that are shown as one, or a position.
TEST(RowExponents, ASliceTakesTheExponentOfItsRow) {
  constexpr int64_t kTaken = 2;
  for (const bool is_flat : {true, false}) {
    GraphBuilder builder("slice");
    const int tokens = builder.add_input("tokens", Shape{kSequence}, Element::kIndex);
    int last = builder.add(ops::kEmbedding, "embedding", {tokens},
                           {{"rows", kVocabulary}, {"channels", kFeatures}});
    if (is_flat) last = builder.add(ops::kFlatten, "flat", {last});
    const Attributes part = is_flat
                                ? Attributes{{"first", kTaken * kFeatures}, {"channels", kFeatures}}
                                : Attributes{{"position", kTaken}, {"channels", kFeatures}};
    RowNetwork net(*builder.finish(builder.add(ops::kSlice, "row", {last}, part)));
    const std::vector<int32_t> ids = random_tokens(5 * kSequence, 1);
    const Rows rows = net.run(kSequence, {ids});
    ASSERT_EQ(std::ssize(rows.exponents), 5);
    for (int64_t n = 0; n < 5; ++n) {
      std::vector<double> numbers;
      for (int64_t i = 0; i < kFeatures; ++i) {
        numbers.push_back(net.number(0, ids[n * kSequence + kTaken] * kFeatures + i));
      }
      EXPECT_GE(expect_row(numbers, rows, n, 8), 64);
    }
  }
}

// With one exponent for the result, and weights whose channels have exponents of their own.
TEST(ChannelExponents, OfALinearLayerOf16Bits) {
  RowNetwork net(linear_of_table(16), "bfp:block=channel");
  const std::vector<int32_t> ids = {3};
  const Rows rows = net.run(1, {ids});
  EXPECT_GE(expect_row(sums_of(net, ids[0]), rows, 0, 16), int64_t{1} << 14);
}

TEST(RowExponents, PaddingAndNeighboursChangeNoBit) {
  RowNetwork net(small_encoder());
  constexpr int64_t kLength = 7;
  const std::vector<int32_t> tokens = random_tokens(kLength, 2);
  const std::vector<int32_t> segments = {0, 0, 0, 1, 1, 1, 1};
  const Rows alone = net.run(kLength, {tokens, segments, {kLength}});
  // The same sentence padded with anything, before other examples.
  std::vector<int32_t> padded = random_tokens(3 * kSequence, 3), other(3 * kSequence, 0);
  std::copy(tokens.begin(), tokens.end(), padded.begin());
  std::copy(segments.begin(), segments.end(), other.begin());
  const Rows among = net.run(kSequence, {padded, other, {kLength, kSequence, 1}});
  EXPECT_EQ(among.first(kLength), alone);
}

TEST(RowExponents, SameBitsOverThreadsAndInstructionSets) {
  RowNetwork net(small_encoder());
  const std::vector<std::vector<int32_t>> inputs = {
      random_tokens(4 * kSequence, 4), std::vector<int32_t>(4 * kSequence, 1), {12, 3, 9, 1}};
  const Rows scalar = net.run(kSequence, inputs, 1, Isa::kScalar);
  for (const int threads : {1, 3}) EXPECT_EQ(net.run(kSequence, inputs, threads), scalar);
}

TEST(RowExponents, AreRefusedWhereTheyAreNotThere) {
  const Format format = *parse_format(kFormat);
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  const auto why_not = [&](const Graph& graph, const ProgramOptions& options) {
    const auto program = compile(in_format(graph, format), options, {&table, 1});
    return program.ok() ? std::string() : program.error().message;
  };
  const Graph pictures = *build_model("lenet5", {});
  EXPECT_NE(why_not(pictures, {.kind = ProgramKind::kInference,
                               .with_loss = false,
                               .exponents = ExponentMode::kFixed,
                               .format = format})
                .find("takes values with one exponent"),
            std::string::npos);
  EXPECT_NE(why_not(pictures, {.format = format}).find("takes values with one exponent"),
            std::string::npos);
}

// Rows that are shown as one have several exponents. Only a slice that takes one of these rows may
// read them.
TEST(RowExponents, RowsShownAsOneAreReadByWholeSlicesOnly) {
  const auto why_not = [](const Attributes& slice, bool slices) {
    GraphBuilder builder("shown");
    const int tokens = builder.add_input("tokens", Shape{3}, Element::kIndex);
    int last = builder.add(ops::kEmbedding, "embedding", {tokens}, {{"rows", 5}, {"channels", 4}});
    last = builder.add(ops::kFlatten, "flat", {last});
    if (slices) last = builder.add(ops::kSlice, "some", {last}, slice);
    last = builder.add(ops::kLinear, "classifier", {last}, {{"channels", 2}});
    const Format format = *parse_format(kFormat);
    const kernels::KernelTable table = kernels::select_kernels(best_isa());
    const auto program = compile(in_format(with_loss(*builder.finish(last)), format),
                                 {.format = format}, {&table, 1});
    return program.ok() ? std::string() : program.error().message;
  };
  EXPECT_EQ(why_not({{"first", 4}, {"channels", 4}}, true), "");
  EXPECT_NE(why_not({{"first", 2}, {"channels", 4}}, true).find("'some' (slice)"),
            std::string::npos);
  EXPECT_NE(why_not({{"first", 4}, {"channels", 2}}, true).find("'some' (slice)"),
            std::string::npos);
  EXPECT_NE(why_not({}, false).find("reads rows in another shape"), std::string::npos);
}

// Channels of each row keep its exponent and their mantissas.
TEST(RowExponents, SlicesOfChannelsKeepThem) {
  const auto network = [](int64_t first, int64_t channels) {
    GraphBuilder builder("slices");
    const int tokens = builder.add_input("tokens", Shape{kSequence}, Element::kIndex);
    int last = builder.add(ops::kEmbedding, "embedding", {tokens},
                           {{"rows", kVocabulary}, {"channels", kFeatures}});
    if (channels < kFeatures) {
      last = builder.add(ops::kSlice, "slice", {last}, {{"first", first}, {"channels", channels}});
    }
    return *builder.finish(last);
  };
  const std::vector<int32_t> ids = random_tokens(3 * kSequence, 1);
  const Rows whole = RowNetwork(network(0, kFeatures)).run(kSequence, {ids});
  for (const auto& [first, channels] : {std::pair<int64_t, int64_t>{0, 8}, {8, 8}, {5, 17}}) {
    const Rows some = RowNetwork(network(first, channels)).run(kSequence, {ids});
    EXPECT_EQ(some.exponents, whole.exponents);
    for (int64_t row = 0; row < std::ssize(ids); ++row) {
      for (int64_t i = 0; i < channels; ++i) {
        ASSERT_EQ(some.mantissas[row * channels + i], whole.mantissas[row * kFeatures + first + i]);
      }
    }
  }
}

// As many channels as rows may have, all at their limits: sums of layers behind them are exact.
TEST(RowExponents, OfTheWidestRowsAreExact) {
  constexpr int64_t kWidest = ops::kMostRowChannels, kTokens = 2;
  GraphBuilder builder("wide");
  const int tokens = builder.add_input("tokens", Shape{kTokens}, Element::kIndex);
  const int embedded =
      builder.add(ops::kEmbedding, "embedding", {tokens}, {{"rows", 3}, {"channels", 2}});
  const Attributes wide = {{"channels", kWidest}, {"bias", 0}, {"least_bits", 16}};
  const int gate = builder.add(ops::kLinear, "gate", {embedded}, wide);
  const int up = builder.add(ops::kLinear, "up", {embedded}, wide);
  const int product = builder.add(ops::kMultiply, "product", {gate, up}, {{"least_bits", 16}});
  const int last = builder.add(ops::kLinear, "down", {product},
                               {{"channels", 3}, {"bias", 0}, {"least_bits", 16}, {"input_bits", 16}});
  const int reader = builder.add(ops::kAdd, "twice", {last, last});
  RowNetwork net(*builder.finish({product, last, reader}));
  // All weights are the largest mantissas of 8 bits, and so are all products.
  for (int p = 0; p < 4; ++p) net.fill(p, INT8_MAX);
  const std::vector<int32_t> ids = {0, 2};
  const Rows products = net.run(kTokens, {ids});
  ASSERT_EQ(std::ssize(products.mantissas), kTokens * kWidest);
  for (const int64_t mantissa : products.mantissas) {
    ASSERT_EQ(mantissa, products.mantissas[0]);
    ASSERT_GE(mantissa, 1 << 14);
  }
  const Rows rows = net.run(kTokens, {ids}, 1, best_isa(), 1);
  for (int64_t row = 0; row < kTokens; ++row) {
    const double each = std::ldexp(static_cast<double>(products.mantissas[0]),
                                   products.exponents[row]);
    std::vector<double> sums;
    for (int64_t o = 0; o < 3; ++o) sums.push_back(kWidest * each * net.number(3, o * kWidest));
    expect_row(sums, rows, row, 16);
  }
  EXPECT_EQ(net.run(kTokens, {ids}, 1, Isa::kScalar, 1), rows);
}

TEST(RowExponents, RowsThatAreWiderAreRefused) {
  GraphBuilder builder("wider");
  const int tokens = builder.add_input("tokens", Shape{2}, Element::kIndex);
  const int embedded =
      builder.add(ops::kEmbedding, "embedding", {tokens}, {{"rows", 3}, {"channels", 2}});
  const int wide =
      builder.add(ops::kLinear, "wide", {embedded}, {{"channels", ops::kMostRowChannels + 1}});
  const int last = builder.add(ops::kLinear, "last", {wide}, {{"channels", 2}});
  const Format format = *parse_format(kFormat);
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  const auto program = compile(in_format(with_loss(*builder.finish(last)), format),
                               {.format = format}, {&table, 1});
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.error().message.find("wants at most 16384 channels"), std::string::npos);
}

// Layers on rows whose exponents are up to 2^10 apart, and on rows that come from layers.
Graph small_trained_network(const Op& norm) {
  GraphBuilder builder("rows");
  const int tokens = builder.add_input("tokens", Shape{5}, Element::kIndex);
  int last =
      builder.add(ops::kEmbedding, "embedding", {tokens}, {{"rows", kVocabulary}, {"channels", 6}});
  const int first = last = builder.add(ops::kLinear, "first", {last}, {{"channels", 8}});
  last = builder.add(ops::kGelu, "gelu", {last});
  last = builder.add(ops::kGeluTanh, "gelu_tanh", {last}, {{"least_bits", 16}});
  last = builder.add(ops::kAdd, "sum", {last, first}, {{"least_bits", 16}});
  last = builder.add(ops::kPositionEmbedding, "positions", {last}, {{"positions", 5}});
  last = builder.add(ops::kPrependRows, "token", {last});
  last = builder.add(ops::kSinusoidalPositions, "sines", {last}, {{"interleaved", 0}});
  last = builder.add(norm, "norm", {last});
  last = builder.add(norm, "norm_of_heads", {last}, {{"heads", 2}});
  last = builder.add(ops::kRotary, "turned", {last}, {{"channels", 4}});
  last = builder.add(ops::kLinear, "second", {last}, {{"channels", 8}, {"least_bits", 16}});
  const int gate = builder.add(ops::kSilu, "silu", {last}, {{"least_bits", 16}});
  last = builder.add(ops::kMultiply, "product", {gate, last}, {{"least_bits", 16}});
  last = builder.add(ops::kLinear, "third", {last}, {{"channels", 6}, {"input_bits", 16}});
  last = builder.add(ops::kRelu6, "relu6", {last});
  last = builder.add(ops::kLinear, "classifier", {last}, {{"channels", 4}, {"classifier", 1}});
  return *builder.finish(last);
}

TEST(RowExponents, GradientsAreThoseOfTheDefinitions) {
  for (const char* format : {kFormat, "bfp:blocks=token", "bfp:a=12,block=channel,blocks=token"}) {
    for (const Op* norm : {&ops::kLayerNorm, &ops::kRmsNorm}) {
      SCOPED_TRACE(std::string(format) + " " + norm->name);
      Checked checked(small_trained_network(*norm), 3, ops::LossKind::kCrossEntropy, 0,
                      *parse_format(format));
      const StateLayout& layout = checked.state().layout();
      const StateTensor& exponents = layout.tensors[layout.parameters[0].exponent];
      auto* const of_row = checked.state().data<int16_t>(layout.parameters[0].exponent);
      for (int64_t row = 0; row < exponents.shape.count(); ++row) {
        of_row[row] += static_cast<int16_t>(row * 3 % 11 - 7);
      }
      checked.run();
      const std::vector<std::string> names = checked.check();
      for (const char* name :
           {"backward_weights embedding", "backward_weights linear", "backward_input linear",
            "backward_input gelu", "backward_input silu", "backward_input relu6",
            "backward_input multiply",
            "backward_input position_embedding", "backward_weights position_embedding",
            "backward_input sinusoidal_positions", "backward_input rotary",
            "backward_input prepend_rows", "backward_weights prepend_rows",
            "backward_input softmax_cross_entropy"}) {
        EXPECT_TRUE(std::ranges::count(names, name)) << name;
      }
      for (const char* phase : {"backward_input ", "backward_weights "}) {
        EXPECT_TRUE(std::ranges::count(names, std::string(phase) + norm->name)) << phase;
      }
    }
  }
}

}  // namespace
}  // namespace mantissa::testing
