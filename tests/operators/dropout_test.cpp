// Dropout: its key defines the mask, the same in both directions. Inference and the frozen network
// pass everything.
#include <gtest/gtest.h>

#include "tests/harness.h"
#include "tests/operators/single_op.h"

namespace mantissa::testing {
namespace {

constexpr int kBits[] = {6, 8, 12, 16, 32};

// The mask by its definition, from the generator's own block function.
bool is_kept(const StepScalars& scalars, int node, int64_t i, int64_t dropped) {
  const auto words = philox({static_cast<uint32_t>(i / 128 * 16 + i % 16),
                             static_cast<uint32_t>(node), static_cast<uint32_t>(scalars.step), 6},
                            {static_cast<uint32_t>(scalars.seed), 0});
  return (words[i / 32 % 4] >> (i / 16 % 2 * 16) & 0xffff) >= dropped;
}

// 1 / (1 - p) in Q30, rounded half up; the numbers here are never ties.
int64_t scale(int64_t dropped) {
  return static_cast<int64_t>(((__int128{1} << 47) / (65536 - dropped) + 1) / 2);
}

TEST(Dropout, KeepsWhatTheKeySaysAndScalesIt) {
  constexpr int64_t kCount = 1000;
  for (const int64_t dropped : {0, 1, 6554, 13107, 32768, 65535}) {
    SingleOp op(ops::kDropout, {{"probability", static_cast<double>(dropped) / 65536}},
                {Shape{kCount / 4}}, 4);
    const Mantissas in = some_mantissas(kCount, 8, -5, 1);
    std::vector<__int128> wide;
    for (int64_t i = 0; i < kCount; ++i) {
      const bool kept = is_kept(op.scalars(), 5, i, dropped);
      wide.push_back(kept ? __int128{in.values[i]} * scale(dropped) : 0);
    }
    const Mantissas wanted = narrowed(wide, -35, 8);
    EXPECT_EQ(op.forward({in}), wanted) << dropped;
    EXPECT_EQ(op.forward({in}, ExponentMode::kPredicted, 7), wanted) << dropped;
    for (const int bits : kBits) {
      const Mantissas grad = some_mantissas(kCount, bits, -20, 2);
      // Gradients of 32 bits take factors of 30 bits: products stay below 2^61.
      int excess = 0;
      while (bits == 32 && scale(dropped) >> (30 + excess) != 0) ++excess;
      const int64_t gradient_scale = shift_right_rne(scale(dropped), excess);
      wide.clear();
      for (int64_t i = 0; i < kCount; ++i) {
        const bool kept = is_kept(op.scalars(), 5, i, dropped);
        wide.push_back(kept ? __int128{grad.values[i]} * gradient_scale : 0);
      }
      EXPECT_EQ(op.backward({in}, grad, bits)[0], narrowed(wide, excess - 50, bits)) << dropped;
      if (bits <= 16) {
        EXPECT_EQ(op.backward({in}, grad, 16)[0], narrowed(wide, -50, 16)) << dropped;
      }
    }
  }
}

TEST(Dropout, StepNodeAndSeedChangeTheMaskThreadsAndInstructionSetsDoNot) {
  constexpr int64_t kCount = 70001;
  const Mantissas in{std::vector<int>(kCount, 100), -5};
  const Attributes attributes = {{"probability", 32768 / 65536.0}};
  SingleOp scalar(ops::kDropout, attributes, {Shape{kCount}}, 1, 1, Isa::kScalar);
  const Mantissas wanted = scalar.forward({in});
  EXPECT_EQ(wanted.exponent, -4) << "twice the values";
  const Mantissas grad{std::vector<int>(kCount, 100), -5};
  const auto backward = scalar.backward({in}, grad, 8);
  EXPECT_EQ(backward[0], wanted) << "one mask in both directions";
  for (const Isa isa : kAllIsas) {
    if (!is_supported(isa)) continue;
    for (const int threads : {1, 2, 3}) {
      SingleOp op(ops::kDropout, attributes, {Shape{kCount}}, 1, threads, isa);
      EXPECT_EQ(op.forward({in}), wanted);
      EXPECT_EQ(op.backward({in}, grad, 8), backward);
    }
  }
  SingleOp other(ops::kDropout, attributes, {Shape{kCount}});
  other.set_node(6);
  EXPECT_NE(other.forward({in}), wanted);
  other.set_node(5);
  EXPECT_EQ(other.forward({in}), wanted);
  other.scalars().step = 5;
  EXPECT_NE(other.forward({in}), wanted);
  other.scalars().step = 4;
  other.scalars().seed = uint64_t{11} << 32;
  EXPECT_NE(other.forward({in}), wanted);
}

TEST(Dropout, InferencePassesEverything) {
  SingleOp op(ops::kDropout, {{"probability", 60000 / 65536.0}}, {Shape{300}});
  const Mantissas in = some_mantissas(300, 8, -5, 1);
  EXPECT_EQ(op.forward({in}, ExponentMode::kFixed, 9), in);
  EXPECT_EQ(op.forward({in}, ExponentMode::kCalibrate, 9), in);
}

TEST(Dropout, RefusesImpossibleProbabilities) {
  for (const double probability : {-1e-9, 0.99999, 1.0, std::nan("")}) {
    const auto shape =
        output_shape(ops::kDropout, {{"probability", probability}}, std::vector{Shape{3}});
    ASSERT_FALSE(shape.ok());
    EXPECT_EQ(shape.error().message, "attribute 'probability' is " +
                                         to_string(AttributeValue(probability)) +
                                         "; wants 0 to 0.9999847412109375");
  }
}

Graph network_with_dropout() {
  GraphBuilder builder("network", Shape{28, 28, 1});
  int value =
      builder.add(ops::kNormaliseInput, "normalise", {builder.input()}, {{"means", WholeList{73}}});
  value = builder.add(ops::kFlatten, "flatten", {value});
  value = builder.add(ops::kLinear, "linear1", {value}, {{"channels", 64}});
  value = builder.add(ops::kRelu, "relu1", {value});
  value = builder.add(ops::kDropout, "dropout1", {value}, {{"probability", 26214 / 65536.0}});
  value = builder.add(ops::kLinear, "classifier", {value}, {{"channels", 10}, {"classifier", 1}});
  return std::move(*builder.finish(value));
}

TEST(Dropout, TheFrozenNetworkHasNone) {
  const Graph frozen = freeze_graph(network_with_dropout());
  for (const Node& node : frozen.nodes) EXPECT_STRNE(node.op->name, "dropout");
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  const auto program = compile(
      frozen,
      {.kind = ProgramKind::kInference, .micro_batch_size = 2, .exponents = ExponentMode::kFixed},
      {&table, 1});
  ASSERT_TRUE(program.ok());
  for (const Instruction& instruction : program->instructions) {
    EXPECT_STRNE(instruction.op->name, "dropout");
    EXPECT_STRNE(instruction.op->name, "identity");
  }
}

}  // namespace
}  // namespace mantissa::testing
