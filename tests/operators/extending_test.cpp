// The toy operator of docs/extending.md, end to end, so that the guide cannot go stale.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "kernels/common/mantissa_span.h"
#include "kernels/common/parallel_ranges.h"
#include "numerics/nearest_fraction.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/wide_values.h"
#include "plan/programs/program_text.h"
#include "tests/harness.h"

namespace mantissa::testing {
namespace {

// --- the operator, as in docs/extending.md ---

// y = -x. Mantissas are symmetric, so nothing is rounded or clipped.
Result<Shape> negate_shape(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() != 1) return invalid_input("wants one input");
  return inputs[0];
}

template <typename Mantissa>
void negate(const OpContext& c, const Tensor& from, const Tensor& to) {
  kernels::parallel_ranges(*c.kernel.pool, to.count(), kernels::kElementsPerThread,
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t i = begin; i < end; ++i) {
                               to.as<Mantissa>()[i] =
                                   static_cast<Mantissa>(-from.as<Mantissa>()[i]);
                             }
                           });
  *to.exponent = *from.exponent;
}

void negate_forward(const OpContext& c) {
  kernels::with_value_type(c.output().bits,
                           [&](auto type) { negate<decltype(type)>(c, c.inputs[0], c.output()); });
}

void negate_backward(const OpContext& c) {
  kernels::with_gradient_type(c.grad_inputs[0].bits, [&](auto type) {
    negate<decltype(type)>(c, c.grad_output(), c.grad_inputs[0]);
  });
}

const Op kNegate = {
    .name = "negate",
    .traits = {.narrowing = Narrowing::kPassed},
    .infer_shape = negate_shape,
    .integer = {.forward = {.run = negate_forward}, .grad_input = {.run = negate_backward}},
    .emit_gradient = emit_passed_gradient};

// --- a network with `negations` of it between two linear layers ---

// Two outputs whose sum is x: x clipped to +-t, and the rest. Nothing is rounded.
struct Shrink {
  double threshold = 0;
  int64_t threshold_q16 = 0;  // in units of 2^-16: steps compute in whole numbers
};
constexpr AttributeSpec kShrinkSchema[] = {real<&Shrink::threshold>("threshold", 1, 0, 128)};

void derive(Shrink& shrink) { shrink.threshold_q16 = nearest_whole(shrink.threshold, 65536); }

Result<std::vector<ValueType>> shrink_outputs(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() != 1) return invalid_input("wants one input");
  return std::vector<ValueType>{{inputs[0]}, {inputs[0]}};
}

// The largest mantissa of the input within the threshold.
int64_t shrink_limit(const OpContext& c) {
  const int units = *c.inputs[0].exponent + 16;
  const int64_t threshold = c.attributes<Shrink>().threshold_q16;
  return units >= 0 ? threshold >> std::min(units, 62) : threshold << std::min(-units, 32);
}

void shrink_forward(const OpContext& c) {
  const int64_t limit = shrink_limit(c);
  kernels::with_value_type(c.inputs[0].bits, [&](auto type) {
    using Mantissa = decltype(type);
    const auto* x = c.inputs[0].as<Mantissa>();
    auto *within = c.outputs[0].as<Mantissa>(), *beyond = c.outputs[1].as<Mantissa>();
    for (int64_t i = 0; i < c.inputs[0].count(); ++i) {
      within[i] = static_cast<Mantissa>(std::clamp<int64_t>(x[i], -limit, limit));
      beyond[i] = static_cast<Mantissa>(x[i] - within[i]);
    }
  });
  *c.outputs[0].exponent = *c.outputs[1].exponent = *c.inputs[0].exponent;
}

// Each element has the gradient of the output that moves with it. They have exponents of their own,
// and one of them may be missing: nothing reads that output.
void shrink_backward(const OpContext& c) {
  const Tensor &within = c.grad_outputs[0], &beyond = c.grad_outputs[1];
  const int e0 = *(within.empty() ? beyond : within).exponent;
  const int e1 = *(beyond.empty() ? within : beyond).exponent;
  const int exponent = aligned_exponent(e0, e1, kAlignBits32);
  const ops::Mantissas x(c.inputs[0]), to_within(within), to_beyond(beyond);
  const int64_t limit = shrink_limit(c);
  const auto wide = [&](int64_t i) -> int64_t {
    const bool is_within = x[i] >= -limit && x[i] <= limit;
    if ((is_within ? within : beyond).empty()) return 0;
    return is_within ? rescale_rne(to_within[i], exponent - e0)
                     : rescale_rne(to_beyond[i], exponent - e1);
  };
  ops::write_wide_gradient(c, c.grad_inputs[0], exponent, wide);
}

const Op kShrink = {
    .name = "shrink",
    .traits = {.narrowing = Narrowing::kPassed},
    .attributes = schema<Shrink, derive>(kShrinkSchema),
    .infer_outputs = shrink_outputs,
    .integer = {.forward = {.run = shrink_forward}, .grad_input = {.run = shrink_backward}},
    .emit_gradient = emit_gradient_by_inputs};

Graph toy_network(int negations) {
  GraphBuilder builder("toy", Shape{28, 28, 1});
  int value =
      builder.add(ops::kNormaliseInput, "normalise", {builder.input()}, {{"means", WholeList{73}}});
  value = builder.add(ops::kFlatten, "flatten", {value});
  value = builder.add(ops::kLinear, "linear1", {value}, {{"channels", 32}});
  value = builder.add(ops::kRelu, "relu1", {value});
  for (int i = 1; i <= negations; ++i) {
    value = builder.add(kNegate, "negate" + std::to_string(i), {value});
  }
  value = builder.add(ops::kLinear, "classifier", {value}, {{"channels", 10}, {"classifier", 1}});
  auto graph = builder.finish(value);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return std::move(*graph);
}

std::string weights_after(int negations, const HarnessOptions& options) {
  Harness harness(options, toy_network(negations));
  harness.train(10);
  return harness.weights_sha256();
}

// --- what the guide asks to test ---

// A view of four numbers.
Tensor view(void* data, DataType type, int16_t* exponent) {
  Tensor tensor;
  tensor.data = data;
  tensor.type = type;
  tensor.bits = static_cast<int>(8 * element_bytes(type));
  tensor.shape = Shape{1, 4};
  tensor.exponent = exponent;
  return tensor;
}

TEST(Extending, NegateTurnsSignsAndPassesExponentsOn) {
  std::array<int8_t, 4> in = {-127, 0, 5, 127}, out = {};
  int16_t in_exponent = -3, out_exponent = 0;
  const Tensor input = view(in.data(), DataType::kInt8, &in_exponent);
  ThreadPool pool(2);
  OpContext c;
  c.inputs = std::span(&input, 1);
  const Tensor output_view = view(out.data(), DataType::kInt8, &out_exponent);
  c.outputs = {&output_view, 1};
  c.kernel.pool = &pool;
  kNegate.integer.forward.run(c);
  EXPECT_EQ(out, (std::array<int8_t, 4>{127, 0, -5, -127}));
  EXPECT_EQ(out_exponent, -3);
}

// There is one more element after the gradient; it must stay.
template <typename Mantissa>
void check_negated_gradient(DataType type) {
  constexpr Mantissa kMost = std::numeric_limits<Mantissa>::max(), kBehind = 99;
  std::array<Mantissa, 5> grad_out = {-kMost, 0, 7, kMost, 1}, grad_in = {0, 0, 0, 0, kBehind};
  int16_t grad_out_exponent = -20, grad_in_exponent = 0;
  const Tensor grad_input = view(grad_in.data(), type, &grad_in_exponent);
  ThreadPool pool(2);
  OpContext c;
  const Tensor grad_view = view(grad_out.data(), type, &grad_out_exponent);
  c.grad_outputs = {&grad_view, 1};
  c.grad_inputs = std::span(&grad_input, 1);
  c.kernel.pool = &pool;
  kNegate.integer.grad_input.run(c);
  EXPECT_EQ(grad_in, (std::array<Mantissa, 5>{kMost, 0, -7, -kMost, kBehind}));
  EXPECT_EQ(grad_in_exponent, -20);
}

TEST(Extending, NegateTurnsSignsOfGradientsOfBothWidths) {
  check_negated_gradient<int8_t>(DataType::kInt8);
  check_negated_gradient<int16_t>(DataType::kInt16);
}

TEST(Extending, ThePlanShowsTheNewOp) {
  Harness harness({}, toy_network(1));
  const std::string text = to_string(harness.graph(), harness.program());
  EXPECT_NE(text.find("negate                forward"), std::string::npos) << text;
  EXPECT_NE(text.find("negate                grad_input"), std::string::npos) << text;
}

// Gradients of 16 bits; of 8; of 8 bits that an instruction of its own rounds; values of 12 bits.
constexpr std::array kFormats = {"bfp8", "bfp:g=8", "bfp:g=8,gr=stochastic", "bfp:a=12"};

TEST(Extending, TwoNegationsChangeNoBit) {
  for (const char* format : kFormats) {
    const HarnessOptions options{.format = format};
    EXPECT_NE(weights_after(1, options), weights_after(0, options)) << format;
    // The random bits of a gradient depend on its place in the network.
    if (parse_format(format)->nearest_gradients) {
      EXPECT_EQ(weights_after(2, options), weights_after(0, options)) << format;
    }
  }
}

TEST(Extending, NegatedNetworksLearn) {
  for (const char* format : kFormats) {
    Harness harness({.format = format, .batch_size = 64, .micro_batch_size = 64}, toy_network(1));
    harness.train(100);
    EXPECT_LT(harness.train(20), 1.4) << format;  // 2.30 is chance
  }
}

TEST(Extending, SameBitsOverThreadsAndInstructionSets) {
  for (const char* format : kFormats) {
    const std::string expected = weights_after(1, {.format = format, .isa = Isa::kScalar});
    for (const int threads : {1, 2, 3}) {
      EXPECT_EQ(weights_after(1, {.format = format, .threads = threads}), expected)
          << format << ", " << threads << " threads";
    }
  }
}

// The input goes on through both outputs, or one; or comes back as their sum.
enum class Shrunk { kBoth, kWithin, kBeyond };

Graph shrinking_network(Shrunk shrunk, double threshold) {
  GraphBuilder builder("shrinking", Shape{28, 28, 1});
  int value = builder.add(ops::kFlatten, "flatten",
                          {builder.add(ops::kNormaliseInput, "normalise", {builder.input()})});
  value = builder.add(ops::kLinear, "linear1", {value}, {{"channels", 32}});
  const std::vector<int> parts =
      builder.add_all(kShrink, "shrink", {value}, {{"threshold", threshold}});
  value = shrunk == Shrunk::kBoth ? builder.add(ops::kAdd, "sum", {parts[0], parts[1]})
                                  : parts[shrunk == Shrunk::kWithin ? 0 : 1];
  value = builder.add(ops::kRelu, "relu1", {value});
  value = builder.add(ops::kLinear, "classifier", {value}, {{"channels", 10}, {"classifier", 1}});
  auto graph = builder.finish(value);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return with_loss(std::move(*graph));
}

TEST(Extending, BothOutputsOfShrinkCarryValuesAndGradients) {
  for (const char* format : kFormats) {
    for (const Shrunk shrunk : {Shrunk::kBoth, Shrunk::kWithin, Shrunk::kBeyond}) {
      Harness harness({.format = format, .batch_size = 64, .micro_batch_size = 64},
                      shrinking_network(shrunk, shrunk == Shrunk::kBeyond ? 0.125 : 2));
      harness.train(150);
      EXPECT_LT(harness.train(20) / 20, 1.4) << format << " " << static_cast<int>(shrunk);
    }
  }
}

// Whether values are kept or computed again between the passes, and with any number of threads.
TEST(Extending, OutputsThatAreComputedAgainAreTheSame) {
  const auto weights = [](HarnessOptions options) {
    Harness harness(options, shrinking_network(Shrunk::kBoth, 0.5));
    harness.train(5);
    return harness.weights_sha256();
  };
  const std::string expected = weights({});
  for (uint64_t key = 1; key < 12; ++key) {
    EXPECT_EQ(weights({.threads = 2, .retention_key = key}), expected) << key;
  }
}

TEST(Extending, ShrunkNetworksFreeze) {
  const Graph graph = freeze_graph(shrinking_network(Shrunk::kBoth, 0.5));
  EXPECT_TRUE(verify(graph).ok());
  EXPECT_EQ(graph.nodes[3].attributes.as<Shrink>().threshold, 0.5);
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Extending, TheGuideHasThisCode) {
  const std::filesystem::path root = MANTISSA_SOURCE_FOLDER;
  const std::string source = text_of(root / "tests" / "operators" / "extending_test.cpp");
  const std::string guide = text_of(root / "docs" / "extending.md");
  const auto begin = guide.find("```cpp\n// Two outputs whose sum");
  ASSERT_NE(begin, std::string::npos);
  const auto code = begin + 7, end = guide.find("```", code);
  EXPECT_NE(source.find(guide.substr(code, end - code)), std::string::npos);
}

TEST(Extending, ErrorsNameTheNode) {
  GraphBuilder builder("bad", Shape{28, 28, 1});
  const int pixels = builder.add(ops::kNormaliseInput, "normalise", {builder.input()});
  const int value = builder.add(kNegate, "negate1", {pixels, pixels});
  const auto graph = builder.finish(value);
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().message, "node 'negate1' (negate): wants one input");
}

}  // namespace
}  // namespace mantissa::testing
