// Every operator inside networks that train: the same bits over threads and instruction sets in all
// gradient widths, learning, and a frozen network that agrees with the trained one.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "models/layers.h"
#include "tests/frozen/frozen.h"
#include "tests/harness.h"
#include "tests/networks.h"
#include "tests/operators/all_operators.h"

namespace mantissa::testing {
namespace {

class Operators : public ::testing::TestWithParam<NamedNetwork> {
 protected:
  // Whether the network has layers that the format can invert.
  static bool may_be(const std::string& format) {
    const Format parsed = *parse_format(format);
    return check_inversion(in_format(GetParam().build(), parsed), parsed).ok();
  }
};

std::string weights_after(const NamedNetwork& network, const HarnessOptions& options) {
  Harness harness(options, network.build());
  harness.train(3);
  return harness.weights_sha256();
}

TEST_P(Operators, SameBitsOverThreadsInstructionSetsAndExponentModes) {
  for (const std::string format :
       {"bfp8", "bfp:g=6", "bfp:g=8", "bfp:g=12", "bfp:g=8,gr=stochastic", "bfp:g=8,gw=32",
        "bfp:gw=32,u=32,ge=exact,g=12", "bfp:inversion=yes", "dfp:warmup=1",
        "dfp:a=12,g=8,gr=stochastic,gw=16,warmup=1"}) {
    if (!may_be(format)) continue;
    HarnessOptions options{.format = format, .batch_size = 8, .micro_batch_size = 4};
    options.isa = Isa::kScalar;
    const std::string expected = weights_after(GetParam(), options);
    options.isa = best_isa();
    for (const int threads : {1, 3}) {
      options.threads = threads;
      EXPECT_EQ(weights_after(GetParam(), options), expected) << format << ", " << threads;
    }
    if (format.starts_with("dfp")) continue;
    options.format = format == "bfp8" ? "bfp:exponents=exact" : format + ",exponents=exact";
    EXPECT_EQ(weights_after(GetParam(), options), expected) << options.format;
  }
}

constexpr int64_t kBatch = 32;

// Freezes a trained network and evaluates it: about as many right as with each batch's exponents,
// and the same bits whatever the batch, the threads and the instruction set.
void expect_frozen_agrees(Harness& harness) {
  const Format format = *parse_format(harness.options().format);
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  ProgramOptions options{.kind = ProgramKind::kInference,
                         .micro_batch_size = kBatch,
                         .exponents = ExponentMode::kCalibrate,
                         .format = format};
  auto evaluation = compile(harness.graph(), options, {&table, 2});
  options.with_loss = false;
  auto calibration = compile(harness.graph(), options, {&table, 2});
  ASSERT_TRUE(evaluation.ok() && calibration.ok());
  auto arena = AlignedMemory::create(std::max(evaluation->arena_bytes, freeze_bytes(*calibration)));
  ExampleSet images = fashion_mnist().test;
  images.count = 320;
  Programs dynamic(harness.graph(), harness.state(), {harness.pool(), arena->span(), best_isa()});
  dynamic.add(*evaluation);
  auto batches = OrderedBatches::create(examples_of(images), kBatch);
  ASSERT_TRUE(batches.ok());
  int64_t correct = 0;
  for (int64_t at = 0; at < images.count; at += kBatch) {
    const auto step = dynamic.infer(batches->next());
    ASSERT_TRUE(step.ok());
    correct += step->correct;
  }
  FrozenDescription description;
  description.format = format;
  auto frozen = freeze_with(harness, *calibration, arena->span(), description, 320);
  ASSERT_TRUE(frozen.ok());
  std::optional<double> loss;
  for (const auto& [batch, threads, isa] :
       {std::tuple{64, 1, best_isa()}, {7, 3, best_isa()}, {64, 2, Isa::kScalar}}) {
    const ClassificationEvaluation result = evaluate_with(*frozen, batch, threads, isa, images);
    // Fixed exponents move a few examples at the border.
    EXPECT_NEAR(static_cast<double>(result.correct), static_cast<double>(correct), 10);
    if (!loss.has_value()) loss = result.loss;
    EXPECT_EQ(result.loss, *loss) << batch << " " << threads;
  }
}

TEST_P(Operators, LearnsAndTheFrozenNetworkAgrees) {
  for (const std::string format : {"bfp8", "bfp:inversion=yes"}) {
    if (!may_be(format)) continue;
    Harness harness(
        {.format = format, .batch_size = kBatch, .micro_batch_size = kBatch, .threads = 2},
        GetParam().build());
    harness.train_to_rest(150);
    EXPECT_LT(harness.train(10), 1.6);  // 2.30 is chance
    expect_frozen_agrees(harness);
  }
}

// Grids that stay have one exponent, though weights of this format have one for each channel.
TEST(FewBits, FreezeWhereChannelsHaveExponents) {
  for (const NamedNetwork& network : networks_of_all_operators()) {
    if (!std::set<std::string>{"quantised", "offset", "rescaled"}.contains(network.name)) continue;
    SCOPED_TRACE(network.name);
    Harness harness({.format = "bfp:block=channel",
                     .batch_size = kBatch,
                     .micro_batch_size = kBatch,
                     .threads = 2},
                    network.build());
    harness.train(60);
    expect_frozen_agrees(harness);
  }
}

TEST_P(Operators, OfWideValuesGiveTheSameBitsAndFreeze) {
  for (const std::string format : {"bfp:w=10,a=12,linear=16", "bfp:linear=16"}) {
    SCOPED_TRACE(format);
    HarnessOptions options{.format = format, .batch_size = 8, .micro_batch_size = 4};
    options.isa = Isa::kScalar;
    const std::string expected = weights_after(GetParam(), options);
    options.isa = best_isa();
    options.threads = 3;
    EXPECT_EQ(weights_after(GetParam(), options), expected);
    options.format += ",exponents=exact";
    EXPECT_EQ(weights_after(GetParam(), options), expected);
    Harness harness(
        {.format = format, .batch_size = kBatch, .micro_batch_size = kBatch, .threads = 2},
        GetParam().build());
    harness.train(25);
    EXPECT_LT(harness.train(5), 2.25);  // 2.30 is chance
    expect_frozen_agrees(harness);
  }
}

struct Written {
  std::vector<std::byte> output;  // with its exponent
  std::vector<std::byte> kept;    // for the backward pass and the end of the step
};

// Runs a forward instruction after all of its outputs were filled with `garbage`. Returns what it
// writes and others read.
Written written_over(Harness& harness, int instruction, std::byte garbage) {
  const Program& program = harness.program();
  const Instruction& i = program.instructions[instruction];
  const OpContext& c = harness.executor().context(instruction);
  const auto buffer = [&](Role role, std::byte* data) {
    const Operand& operand = i.first(role);
    const bool exists = operand.in_arena();
    return std::span(data, exists ? static_cast<size_t>(program.buffers[operand.index].bytes) : 0);
  };
  const std::span<std::byte> output = buffer(Role::kOutput, c.output().as<std::byte>()),
                             saved = buffer(Role::kSaved, c.memory.saved),
                             statistics = buffer(Role::kStatistics, c.memory.statistics);
  for (const std::span<std::byte> part : {output, saved, statistics, c.kernel.scratch,
                                          buffer(Role::kWorkspace, c.memory.workspace)}) {
    std::fill(part.begin(), part.end(), garbage);
  }
  *c.output().exponent = static_cast<int16_t>(garbage);
  i.row->run(c);
  Written result{{output.begin(), output.end()}, {saved.begin(), saved.end()}};
  result.output.push_back(static_cast<std::byte>(*c.output().exponent & 0xff));
  result.kept.insert(result.kept.end(), statistics.begin(), statistics.end());
  return result;
}

// Run again on other garbage, an instruction gives the same bits: it depends only on its declared
// inputs. So values that were dropped can be computed anew.
TEST_P(Operators, ForwardAgainGivesTheSameBits) {
  constexpr std::byte kOne{0x05}, kOther{0xEE};
  for (const char* format : {"bfp8", "bfp:exponents=exact", "bfp:w=10,a=12,linear=16", "dfp8"}) {
    Harness harness({.format = format,
                     .batch_size = 4,
                     .micro_batch_size = 4,
                     .threads = 2,
                     .reuses_memory = false},
                    GetParam().build());
    harness.train(2);
    const auto& instructions = harness.program().instructions;
    for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
      if (!is_forward(instructions[i]) || !instructions[i].output().exists()) continue;
      SCOPED_TRACE(instructions[i].name + " (" + instructions[i].op->name + ") " + format);
      const Written a = written_over(harness, i, kOne), b = written_over(harness, i, kOther);
      EXPECT_EQ(a.output, b.output);
      for (size_t k = 0; k < a.kept.size(); ++k) {
        // Some of the kept data are written later.
        if (a.kept[k] == kOne && b.kept[k] == kOther) continue;
        ASSERT_EQ(a.kept[k], b.kept[k]) << k;
      }
    }
  }
}

std::string network_name(const ::testing::TestParamInfo<NamedNetwork>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Networks, Operators, ::testing::ValuesIn(networks_of_all_operators()),
                         network_name);

// No operator is forgotten above.
TEST(AllOperators, AreInTheNetworks) {
  std::set<std::string> seen;
  for (const NamedNetwork& network : networks_of_all_operators()) {
    const Graph graph = network.build();
    for (const Graph& each :
         {graph, freeze_graph(graph), freeze_graph(graph, FrozenForm::kRescaled)}) {
      for (const Node& node : each.nodes) seen.insert(node.op->name);
    }
  }
  // Missing are losses, which networks get for training; instructions that are no nodes; and nodes
  // of some formats. Networks with inputs of numbers are in graph_test.cpp.
  seen.insert(ops::kQuantiseInput.name);
  seen.insert(ops::kRescaledLinear.name);  // in rescaled_test.cpp
  seen.insert(ops::kAddHalfUp.name);       // in tie_free_test.cpp
  seen.insert(ops::kWiden.name);           // the same
  seen.insert(ops::kEmbedding.name);       // in language_test.cpp
  for (const Op* op :
       {&ops::kBatchNormInverted, &ops::kNormRelu, &ops::kSoftmaxCrossEntropy,
        &ops::kMeanSquaredError, &ops::kSigmoidCrossEntropy, &ops::kRegressionError,
        &ops::kSoftCrossEntropy, &ops::kDistilledCrossEntropy, &ops::kDiceLoss,
        &ops::kContrastiveLoss, &ops::kTripletLoss, &ops::kCtcLoss,
        &ops::kSumGradients, &ops::kRoundGradient, &ops::kRoundGradientStochastic,
        &ops::kRequantise, &ops::kUpdateSgd, &ops::kUpdateMomentum, &ops::kUpdateNesterov,
        &ops::kUpdateAdam, &ops::kUpdateAdamW, &ops::kGradientNorm, &ops::kBendGradient}) {
    seen.insert(op->name);
  }
  for (const Op* op : kAllOperators) EXPECT_EQ(seen.count(op->name), 1) << op->name;
}

TEST(AllOperators, AreDocumented) {
  std::ifstream file(std::filesystem::path(MANTISSA_SOURCE_FOLDER) / "docs" / "operators.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const Op* op : kAllOperators) {
    EXPECT_NE(page.find('`' + std::string(op->name) + '`'), std::string::npos) << op->name;
  }
}

}  // namespace
}  // namespace mantissa::testing
