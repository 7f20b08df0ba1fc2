// Widths of values: the values that are wider than the format's `a`. And operators treat signs as
// their traits say: `unsigned` relies on that.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "numerics/rounding.h"
#include "plan/passes/network_format.h"
#include "plan/programs/grids.h"
#include "tests/harness.h"
#include "tests/operators/all_operators.h"
#include "tests/operators/single_op.h"

namespace mantissa::testing {
namespace {

Format format_of(const char* text) {
  const auto format = parse_format(text);
  EXPECT_TRUE(format.ok()) << text;
  return *format;
}

// Bits of every value, by name.
std::map<std::string, int> bits_in(const Graph& graph, const char* text) {
  const Format format = format_of(text);
  const Graph network = in_format(graph, format);
  std::map<std::string, int> bits;
  for (int value = 0; value < static_cast<int>(network.values.size()); ++value) {
    bits[network.values[value].name] = grids(network, format).values[value].bits;
  }
  return bits;
}

std::map<std::string, int> bits_in(const char* model, const char* format) {
  auto graph = build_model(model, {});
  EXPECT_TRUE(graph.ok());
  return bits_in(*graph, format);
}

TEST(ValueBits, AreTheFormatsWithSigns) {
  for (const char* model : {"lenet5", "resnet8", "inception_small"}) {
    for (const auto& [name, bits] : bits_in(model, "bfp:a=5")) EXPECT_EQ(bits, 5) << name;
  }
}

// Values that go through a ReLU, even after a pool, need no sign; the pictures need one.
TEST(ValueBits, WhatOnlyReluReadsHasOneMore) {
  auto bits = bits_in("lenet5", "bfp:a=4,unsigned=yes");
  EXPECT_EQ(bits["normalise"], 4);
  for (const char* name : {"conv1", "pool1", "relu1", "pool2", "relu2", "flatten", "linear1"}) {
    EXPECT_EQ(bits[name], 5) << name;
  }
  bits = bits_in("lenet5", "bfp:a=4,linear=16,unsigned=yes");
  EXPECT_EQ(bits["conv1"], 16);
  EXPECT_EQ(bits["relu1"], 16);
  EXPECT_EQ(bits["relu1.activations"], 5);
  bits = bits_in("lenet5", "bfp:a=4,linear=8");
  EXPECT_EQ(bits["conv1"], 8);
  EXPECT_EQ(bits["relu1.activations"], 4);
}

// A residual block: only the sum's ReLU and the ReLU inside take signs away.
TEST(ValueBits, ResidualSumsKeepSignsUpToTheirRelu) {
  GraphBuilder builder("block", Shape{4, 4, 1});
  const int in = builder.add(ops::kNormaliseInput, "normalise", {builder.input()});
  const int stem = builder.add(ops::kConvolution, "stem", {in}, {{"channels", 8}, {"padding", 1}});
  const int first = builder.add(ops::kRelu, "stem_relu", {stem});
  int value = builder.add(ops::kConvolution, "conv", {first}, {{"channels", 8}, {"padding", 1}});
  value = builder.add(ops::kBatchNorm, "norm", {value});
  value = builder.add(ops::kAdd, "sum", {value, first});
  value = builder.add(ops::kRelu, "relu", {value});
  value = builder.add(ops::kGlobalAveragePool, "average", {value});
  value = builder.add(ops::kDropout, "dropout", {value});
  auto graph = builder.finish(builder.add(ops::kLinear, "logits", {value}, {{"channels", 10}}));
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  auto bits = bits_in(*graph, "bfp:unsigned=yes");
  for (const char* name : {"normalise", "conv", "norm", "logits"}) EXPECT_EQ(bits[name], 8) << name;
  for (const char* name : {"stem", "stem_relu", "sum", "relu", "average", "dropout"}) {
    EXPECT_EQ(bits[name], 9) << name;
  }
}

TEST(ValueBits, FunctionsDecide) {
  const auto bits_after = [](const Op& op, const char* name) {
    GraphBuilder builder("functions", Shape{4, 4, 1});
    int value = builder.add(ops::kNormaliseInput, "normalise", {builder.input()});
    value = builder.add(ops::kConvolution, "before", {value}, {{"channels", 8}});
    value = builder.add(op, "function", {value});
    value = builder.add(ops::kConvolution, "conv", {value}, {{"kernel", 1}, {"channels", 8}});
    value = builder.add(ops::kFlatten, "flatten", {value});
    auto graph = builder.finish(builder.add(ops::kLinear, "logits", {value}, {{"channels", 10}}));
    EXPECT_TRUE(graph.ok()) << graph.error().message;
    return bits_in(*graph, "bfp:a=6,unsigned=yes")[name];
  };
  for (const Op* op : {&ops::kRelu, &ops::kRelu6}) {
    EXPECT_EQ(bits_after(*op, "before"), 7) << op->name;
    EXPECT_EQ(bits_after(*op, "function"), 7) << op->name;
  }
  for (const Op* op : {&ops::kSigmoid, &ops::kHardSigmoid, &ops::kSoftplus}) {
    EXPECT_EQ(bits_after(*op, "before"), 6) << op->name;
    EXPECT_EQ(bits_after(*op, "function"), 7) << op->name;
  }
  for (const Op* op : {&ops::kTanh, &ops::kLeakyRelu, &ops::kHardSwish, &ops::kElu, &ops::kMish}) {
    EXPECT_EQ(bits_after(*op, "before"), 6) << op->name;
    EXPECT_EQ(bits_after(*op, "function"), 6) << op->name;
  }
}

// A value that only ReLU6 reads need not reach further than 6: 96 * 2^-4 with 7 bits and a sign.
TEST(ExponentLimits, AreThoseOfWhatAllReadersClip) {
  const auto limit_of = [](const char* text, const Op& function, bool read_twice) {
    GraphBuilder builder("limits", Shape{4, 4, 1});
    int value = builder.add(ops::kNormaliseInput, "normalise", {builder.input()});
    value = builder.add(ops::kConvolution, "conv", {value}, {{"channels", 8}});
    const int norm = builder.add(ops::kBatchNorm, "norm", {value});
    value = builder.add(function, "function", {norm});
    if (read_twice) value = builder.add(ops::kAdd, "sum", {value, norm});
    value = builder.add(ops::kFlatten, "flatten", {value});
    auto graph = builder.finish(builder.add(ops::kLinear, "logits", {value}, {{"channels", 10}}));
    EXPECT_TRUE(graph.ok()) << graph.error().message;
    const Format format = format_of(text);
    const Graph network = in_format(*graph, format);
    for (int other = 0; other < static_cast<int>(network.values.size()); ++other) {
      if (other == norm) continue;
      EXPECT_EQ(grids(network, format).values[other].exponent_limit, kExponentMax);
    }
    return grids(network, format).values[norm].exponent_limit;
  };
  EXPECT_EQ(limit_of("bfp8", ops::kRelu6, false), -4);
  EXPECT_EQ(limit_of("dfp8", ops::kRelu6, false), -4);
  EXPECT_EQ(limit_of("bfp:unsigned=yes", ops::kRelu6, false), -5);
  EXPECT_EQ(limit_of("bfp:a=16", ops::kRelu6, false), -12);
  EXPECT_EQ(limit_of("bfp8", ops::kRelu6, true), kExponentMax) << "add reads it";
  EXPECT_EQ(limit_of("bfp:inversion=yes", ops::kRelu6, false), kExponentMax)
      << "the batch norm reads it backward";
  for (const Op* op : {&ops::kRelu, &ops::kHardSwish, &ops::kSigmoid}) {
    EXPECT_EQ(limit_of("bfp8", *op, false), kExponentMax) << op->name;
  }
}

std::set<std::string> inverted(const char* model, const char* format) {
  std::set<std::string> names;
  for (const Node& node : in_format(*build_model(model, {}), format_of(format)).nodes) {
    if (node.op == &ops::kBatchNormInverted) names.insert(node.name);
  }
  return names;
}

// Batch norms are inverted if a ReLU reads the output, or if the backward pass does, through ReLU6
// or a convolution; or if the output is smaller. Not if only a sum reads it, nor if the scale
// starts at zero.
TEST(Inversion, IsWhereKeepingTheOutputSaves) {
  EXPECT_TRUE(inverted("mobilenet_v2", "bfp8").empty());
  EXPECT_TRUE(inverted("mobilenet_v2", "fp32").empty());
  EXPECT_EQ(inverted("resnet8", "bfp:inversion=yes"),
            (std::set<std::string>{"stem_norm", "stage1.block1.norm1", "stage2.block1.norm1",
                                   "stage3.block1.norm1"}));
  EXPECT_TRUE(
      inverted("resnet8", "bfp:inversion=yes,linear=16").contains("stage2.block1.shortcut_norm"));
  EXPECT_FALSE(inverted("resnet8", "bfp:inversion=yes,linear=16").contains("stage1.block1.norm2"));
  EXPECT_EQ(inverted("vgg16_bn", "bfp:inversion=yes").size(), 13u);
  const Format inverting = format_of("bfp:inversion=yes");
  EXPECT_TRUE(check_inversion(*build_model("lenet5", {}), format_of("bfp8")).ok());
  EXPECT_FALSE(check_inversion(in_format(*build_model("lenet5", {}), inverting), inverting).ok());
  const auto names = inverted("mobilenet_v2", "bfp:inversion=yes");
  for (const char* name :
       {"stem_norm", "block1.depthwise_norm", "block3.expand_norm", "block1.project_norm"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_FALSE(names.contains("block3.project_norm"));  // the residual sum reads it
}

// A ReLU after an inverted batch norm leaves its mask to it; other ReLUs do not.
TEST(Inversion, TakesTheReluBehindIt) {
  for (const Node& node :
       in_format(*build_model("resnet8", {}), format_of("bfp:inversion=yes")).nodes) {
    if (node.name.find("relu") == std::string::npos) continue;
    const bool behind_norm = node.name.find("relu2") == std::string::npos;  // the others: a sum
    EXPECT_EQ(node.op, behind_norm ? &ops::kNormRelu : &ops::kRelu) << node.name;
  }
}

// If the backward pass of another node reads the input, inverting saves nothing.
TEST(Inversion, IsNotWhereTheInputStays) {
  GraphBuilder builder("two_readers", Shape{8, 8, 1});
  int input = builder.add(ops::kNormaliseInput, "normalise", {builder.input()},
                          {{"means", WholeList{128}}});
  input = builder.add(ops::kConvolution, "first", {input}, {{"channels", 8}, {"padding", 1}});
  int branch = builder.add(ops::kBatchNorm, "norm", {input});
  branch = builder.add(ops::kRelu, "relu", {branch});
  int value = builder.add(ops::kConvolution, "second", {input}, {{"channels", 8}, {"padding", 1}});
  value = builder.add(ops::kAdd, "add", {branch, value});
  value = builder.add(ops::kFlatten, "flatten", {value});
  value = builder.add(ops::kLinear, "linear", {value}, {{"channels", 10}});
  const Graph graph = in_format(*builder.finish(value), format_of("bfp:inversion=yes"));
  for (const Node& node : graph.nodes) {
    EXPECT_NE(node.op, &ops::kBatchNormInverted);
    EXPECT_NE(node.op, &ops::kNormRelu);
  }
}

// ReLU6 takes negatives for zeros, and the inversion does not. Before a ReLU negatives have a unit
// of their own.
TEST(Inversion, KeepsSigns) {
  EXPECT_EQ(bits_in("mobilenet_v2", "bfp:unsigned=yes")["stem_norm"], 9);
  EXPECT_EQ(bits_in("mobilenet_v2", "bfp:unsigned=yes,inversion=yes")["stem_norm"], 8);
  for (const char* value : {"stem_norm", "stem_relu"}) {
    EXPECT_EQ(bits_in("resnet8", "bfp:a=7,unsigned=yes,inversion=yes")[value], 8) << value;
  }
}

TEST(ValueBits, RequantisingIsExact) {
  constexpr int64_t kCount = 2 * 77;
  for (const auto& [from, to] : {std::pair{8, 5}, {8, 2}, {8, 8}, {16, 8}, {9, 4}, {16, 9}}) {
    const Mantissas in = some_mantissas(kCount, from, -7, 5);
    SingleOp op(ops::kRequantise, {}, {Shape{77}}, 2, 3);
    const Mantissas wanted = narrowed({in.values.begin(), in.values.end()}, -7, to);
    for (const ExponentMode mode :
         {ExponentMode::kExact, ExponentMode::kPredicted, ExponentMode::kCalibrate}) {
      EXPECT_EQ(op.forward({in}, mode, -9, to), wanted) << from << " to " << to;
    }
  }
}

Mantissas without_negatives(Mantissas values) {
  for (int& value : values.values) value = std::max(value, 0);
  return values;
}

// The rules that traits state, on random operands with the extremes among them.
TEST(Signs, OperatorsKeepWhatTheirTraitsSay) {
  constexpr int64_t kBatch = 2;
  const Shape image{6, 6, 4};
  const int64_t count = kBatch * image.count();
  const auto expect_no_negative = [](const Op& op, const Mantissas& found) {
    for (const int value : found.values) ASSERT_GE(value, 0) << op.name;
  };
  int never = 0, keeping = 0, clipping = 0;
  for (const Op* op : kAllOperators) {
    const OpTraits& traits = op->traits;
    const bool never_negative = traits.sign == Sign::kNeverNegative;
    const bool keeps_sign = traits.sign == Sign::kKept;
    if (!never_negative && !keeps_sign && !traits.clips.negatives) continue;
    if (is_view(*op)) continue;  // computes nothing
    const bool two = op == &ops::kAdd || op == &ops::kAddHalfUp || op == &ops::kMultiply;
    // Operators of frozen networks, which have 8 bits and fixed exponents.
    const bool only_bytes = op == &ops::kExactAveragePool || op == &ops::kRescaledGlobalAverage ||
                            op == &ops::kAddHalfUp;
    Attributes attributes;
    if (op == &ops::kSlice) attributes = {{"first", 1}, {"channels", 2}};
    if (op == &ops::kGatherRows) attributes = {{"rows", WholeList{5, 0, 0, 2}}};
    if (op == &ops::kScatterRows) {
      attributes = {{"rows", WholeList{6, 5, 3, 2, 1, 0}}, {"positions", 8}};
    }
    if (op == &ops::kUpsample) attributes = {{"factor", 2}};
    if (op == &ops::kBilinearResize) attributes = {{"height", 9}, {"width", 4}};
    const Shape shape = op == &ops::kDepthTaps ? Shape{4, 3, 3, 4} : image;  // as many numbers
    SingleOp single(*op, attributes, std::vector<Shape>(two ? 2 : 1, shape), kBatch, 2);
    const auto forward = [&](const Mantissas& in, int bits) {
      std::vector<Mantissas> inputs = {in};
      if (two) inputs.push_back(without_negatives(some_mantissas(count, bits, -3, 9)));
      return only_bytes ? single.forward(inputs, ExponentMode::kFixed, in.exponent, 8)
                        : single.forward(inputs, ExponentMode::kExact, 0, bits);
    };
    for (const int bits : only_bytes ? std::vector{8} : std::vector{5, 8, 9, 16}) {
      for (const int exponent : {-12, -5, 0}) {
        const Mantissas in = some_mantissas(count, bits, exponent, 3);
        if (never_negative) expect_no_negative(*op, forward(in, bits));
        if (keeps_sign) expect_no_negative(*op, forward(without_negatives(in), bits));
        if (!traits.clips.negatives) continue;
        EXPECT_EQ(forward(in, bits), forward(without_negatives(in), bits)) << op->name;
        const Mantissas grad = some_mantissas(count, 16, -20, 4);
        // The mask may come from the input or from the output; some leave it to another operator.
        if (reads_backward(*op, Role::kOutput) || !op->integer.grad_input) continue;
        const auto grad_in = single.backward({in}, grad, 16);
        EXPECT_EQ(grad_in, single.backward({without_negatives(in)}, grad, 16)) << op->name;
      }
    }
    never += never_negative;
    keeping += keeps_sign;
    clipping += traits.clips.negatives;
  }
  EXPECT_EQ(never, 7);
  EXPECT_EQ(keeping, 26);
  EXPECT_EQ(clipping, 3);
}

// With few bits the bit of the sign is worth much.
TEST(ValueBits, OneMoreLearnsBetter) {
  const auto loss = [](const char* format) {
    Harness harness({.model = "lenet5",
                     .format = format,
                     .batch_size = 64,
                     .micro_batch_size = 64,
                     .threads = 2});
    harness.train(150);
    return harness.train(50);
  };
  EXPECT_LT(loss("bfp:a=4,unsigned=yes"), 0.9 * loss("bfp:a=4"));
}

}  // namespace
}  // namespace mantissa::testing
