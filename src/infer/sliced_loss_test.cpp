// Logits in slices of rows leave the bits that logits as a whole leave: weights, predictors, losses
// and counts.
#include "plan/passes/sliced_loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kernels/kernel_table.h"
#include "models/models.h"
#include "ops/loss.h"
#include "ops/losses/slices/sliced_loss.h"
#include "plan/passes/network_format.h"
#include "plan/programs/state_layout.h"
#include "plan/programs/verify.h"
#include "plan/stages/stage_layers.h"
#include "runtime/executor.h"
#include "runtime/memory.h"
#include "runtime/stages/pipeline.h"

namespace mantissa {
namespace {

constexpr int64_t kBatch = 4, kLength = 13, kTokens = 301, kRows = kBatch * kLength;
constexpr int kSteps = 4;
constexpr const char* kRowFormat = "bfp:block=channel,blocks=token";

struct Settings {
  const char* format = kRowFormat;
  int64_t logit_rows = 0;
  int threads = 1;
  int micro_batches = 1;
  bool computes_again = false;
  bool trains_head = false;
  bool has_weights = false;
  int64_t tokens = kTokens;
  int stages = 0;  // the second one begins at the layer of the logits, or in the middle
  bool divides_at_head = false;
};

int head_of(const Graph& graph) {
  return graph.values[graph.nodes[graph.losses[0]].inputs[0]].producer;
}

Graph network(const Settings& settings) {
  Graph graph = *build_model("transformer_lm", {.classes = settings.tokens,
                                                .width_multiplier = 0.25,
                                                .label_smoothing = 0.1,
                                                .sequence = kLength});
  if (settings.has_weights) {
    EXPECT_TRUE(ops::add_row_weights(graph).ok());
  }
  for (const int parameter : graph.nodes[head_of(graph)].parameters) {
    graph.parameters[parameter].trained = settings.trains_head;
  }
  return graph;
}

// Trains the network on tokens that are drawn, those of later rows from a smaller part of them, so
// that slices differ.
class Training {
 public:
  explicit Training(const Settings& settings) : settings_(settings), pool_(settings.threads) {
    const Format format = *parse_format(settings.format);
    graph_ = in_format(network(settings), format);
    state_.emplace(
        std::move(*State::create(training_layout(graph_, format, OptimizerKind::kAdam))));
    initialise(graph_, format, 3, *state_);
    const kernels::KernelTable table = kernels::select_kernels(best_isa());
    ProgramOptions options{.micro_batch_size = kBatch / settings.micro_batches,
                           .micro_batches = settings.micro_batches,
                           .optimizer = OptimizerKind::kAdam,
                           .exponents = training_exponents(format),
                           .logit_rows = settings.logit_rows,
                           .format = format};
    if (settings.computes_again) {
      options.retention.assign(graph_.values.size(), Retention::kRecomputed);
    }
    program_ = *compile(graph_, options, {&table, settings.threads});
    const Status verified = verify(graph_, program_);
    EXPECT_TRUE(verified.ok()) << (verified.ok() ? "" : verified.error().message);
    if (settings.stages > 0) {
      start_stages();
      return;
    }
    make_arena(program_.arena_bytes);
    executor_.emplace(graph_, program_, *state_, arena_->span(), pool_, best_isa());
  }

  void train() {
    for (int i = 0; i < kSteps; ++i) results_.push_back(step(i));
  }

  // Inference of the loss alone.
  StepResult measure(const ProgramOptions& options) {
    const kernels::KernelTable table = kernels::select_kernels(best_isa());
    const Program program = *compile(graph_, options, {&table, settings_.threads});
    EXPECT_TRUE(verify(graph_, program).ok());
    EXPECT_EQ(is_sliced(program), options.logit_rows > 0);
    make_arena(program.arena_bytes);
    Executor executor(graph_, program, *state_, arena_->span(), pool_, best_isa());
    draw(0);
    return *executor.infer(batch());
  }

  static bool is_sliced(const Program& program) {
    return std::ranges::any_of(program.instructions, [](const Instruction& instruction) {
      return instruction.op == &ops::kSlicedCrossEntropy;
    });
  }
  bool is_sliced() const { return is_sliced(program_); }
  int64_t largest_buffer() const {
    return std::ranges::max_element(program_.buffers, {}, &Buffer::bytes)->bytes;
  }
  const Graph& graph() const { return graph_; }
  StageLayers layers() const {
    return stage_layers(
        graph_, program_,
        training_layout(graph_, *parse_format(settings_.format), OptimizerKind::kAdam),
        MachineProfile{}, 1);
  }
  std::string sha256() const { return state_->sha256(StateGroup::kPredictor); }
  const std::vector<StepResult>& results() const { return results_; }

 private:
  void make_arena(int64_t bytes) {
    arena_.emplace(std::move(*AlignedMemory::create(bytes)));
    std::memset(arena_->data(), 0xA5, arena_->span().size());
  }

  void start_stages() {
    const auto count = static_cast<int>(graph_.nodes.size());
    const int second = settings_.divides_at_head ? head_of(graph_) : count / 2;
    for (int n = 0; n < count; ++n) stage_of_.push_back(n < second ? 0 : 1);
    way_ = {.stages = 2, .accumulate = settings_.micro_batches, .updates = kSteps};
    plan_ =
        *plan_stages(graph_, program_, state_->layout(), stage_of_, *pipeline::make_schedule(way_));
    make_arena(arena_bytes(plan_, 0, 2));
    pipeline_ = std::move(*PipelineExecutor::create(graph_, program_, plan_, way_, *state_,
                                                    arena_->span(), settings_.threads, best_isa()));
  }

  void draw(int step) {
    for (int64_t i = 0; i < kRows; ++i) {
      const uint64_t bits = random_bits(9, RandomStream::kShuffle, static_cast<uint32_t>(step),
                                        static_cast<uint64_t>(i));
      const uint64_t most = i < kRows / 2 ? kTokens : 5;
      tokens_[i] = static_cast<int32_t>(bits % most);
      labels_[i] = i % 11 == 3 ? -1 : static_cast<int32_t>((bits >> 20) % most);
      weights_[i] = static_cast<int16_t>((bits >> 40) % 2048);
    }
  }

  std::array<const void*, 3> batch() const {
    return {tokens_.data(), labels_.data(), weights_.data()};
  }

  StepResult step(int number) {
    draw(number);
    const StepScalars scalars{.learning_rate = 0.01, .gradient_scale = 1.0 / kRows, .step = number};
    if (pipeline_ == nullptr) return checked(executor_->train_step(batch(), scalars));
    EXPECT_TRUE(pipeline_->begin(1, number).ok());
    EXPECT_TRUE(pipeline_->feed(batch(), scalars).ok());
    return checked(pipeline_->next_result());
  }

  static StepResult checked(const Result<StepResult>& result) {
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return result.ok() ? *result : StepResult{};
  }

  Settings settings_;
  ThreadPool pool_;
  Graph graph_;
  Program program_;
  std::optional<State> state_;
  std::optional<AlignedMemory> arena_;
  std::optional<Executor> executor_;
  std::vector<int> stage_of_;
  pipeline::Options way_;
  PipelinePlan plan_;
  std::unique_ptr<PipelineExecutor> pipeline_;
  std::array<int32_t, kRows> tokens_{}, labels_{};
  std::array<int16_t, kRows> weights_{};
  std::vector<StepResult> results_;
};

void expect_same_counts(const StepResult& a, const StepResult& b) {
  EXPECT_EQ(a.losses[0].loss_q24, b.losses[0].loss_q24);
  EXPECT_EQ(a.losses[0].correct, b.losses[0].correct);
  EXPECT_EQ(a.losses[0].rows, b.losses[0].rows);
  EXPECT_EQ(a.losses[0].counted, b.losses[0].counted);
  EXPECT_EQ(a.losses[0].weight_q10, b.losses[0].weight_q10);
  EXPECT_EQ(a.saturated, b.saturated);
  EXPECT_EQ(a.requantised, b.requantised);
  EXPECT_EQ(a.re_executions, b.re_executions);
  EXPECT_EQ(a.mispredictions, b.mispredictions);
}

// Trains with slices of several sizes, and without.
void expect_same_bits(Settings settings) {
  Training whole(settings);
  whole.train();
  EXPECT_FALSE(whole.is_sliced());
  for (const int64_t rows : {1, 7, 16, 1000}) {
    SCOPED_TRACE(std::string(settings.format) + ", slices of " + std::to_string(rows));
    settings.logit_rows = rows;
    Training sliced(settings);
    EXPECT_TRUE(sliced.is_sliced());
    sliced.train();
    EXPECT_EQ(sliced.sha256(), whole.sha256());
    for (int i = 0; i < kSteps; ++i) {
      expect_same_counts(sliced.results()[i], whole.results()[i]);
    }
  }
}

TEST(SlicedLoss, LeavesTheBitsOfTheWholeInEachFormat) {
  for (const char* format :
       {kRowFormat, "bfp:block=channel,blocks=token,ge=exact", "bfp8", "bfp:block=channel",
        "bfp:ge=exact", "bfp:exponents=exact", "bfp:g=8", "bfp:w=16,a=16"}) {
    expect_same_bits({.format = format});
  }
}

TEST(SlicedLoss, LeavesTheBitsOfTheWholeOnThreadsInMicroBatchesAndComputedAgain) {
  for (const char* format : {kRowFormat, "bfp8"}) {
    expect_same_bits({.format = format, .threads = 2});
    expect_same_bits({.format = format, .micro_batches = 2});
    expect_same_bits({.format = format, .computes_again = true});
    expect_same_bits({.format = format, .has_weights = true});
  }
}

TEST(SlicedLoss, LeavesTheBitsOfTheWholeOnStages) {
  for (const bool divides_at_head : {false, true}) {
    expect_same_bits({.micro_batches = 2, .stages = 2, .divides_at_head = divides_at_head});
  }
}

// The head and the loss are one layer, with the operations of the head: divisions stay as they
// were.
TEST(SlicedLoss, IsOneLayerOfAPipeline) {
  Training whole({}), sliced({.logit_rows = 4});
  const StageLayers ours = sliced.layers(), theirs = whole.layers();
  ASSERT_EQ(ours.layers.size() + 1, theirs.layers.size());
  EXPECT_EQ(ours.first_node.back(), head_of(sliced.graph()));
  const auto operations = [](const StageLayers& all) {
    int64_t sum = 0;
    for (const pipeline::Layer& layer : all.layers) sum += layer.multiply_adds;
    return sum;
  };
  EXPECT_EQ(operations(ours), operations(theirs));
}

TEST(SlicedLoss, HoldsTheLogitsOfASliceAlone) {
  constexpr int64_t kMany = 10 * kTokens, kLogits = kRows * kMany * int64_t{sizeof(int32_t)};
  Training whole({.tokens = kMany}), sliced({.logit_rows = 4, .tokens = kMany});
  EXPECT_GE(whole.largest_buffer(), kLogits);
  EXPECT_LT(sliced.largest_buffer(), kLogits / 2);
}

TEST(SlicedLoss, LeavesTheWholeWhereItCannotKeepBits) {
  const auto is_sliced = [](Settings settings) {
    settings.logit_rows = 4;
    return Training(settings).is_sliced();
  };
  EXPECT_TRUE(is_sliced({}));
  EXPECT_FALSE(is_sliced({.trains_head = true}));
  EXPECT_FALSE(is_sliced({.format = "dfp8"}));
  EXPECT_FALSE(is_sliced({.format = "fp32"}));
  EXPECT_FALSE(is_sliced({.format = "bfp:g=8,gr=stochastic"}));
}

TEST(SlicedLoss, MeasuresWhatTheWholeMeasures) {
  for (const char* format : {kRowFormat, "bfp8"}) {
    Training training({.format = format});
    training.train();
    ProgramOptions options{.kind = ProgramKind::kInference,
                           .micro_batch_size = kBatch,
                           .exponents = ExponentMode::kExact,
                           .format = *parse_format(format)};
    const StepResult whole = training.measure(options);
    EXPECT_GT(whole.losses[0].loss_q24, 0);
    options.results = {training.graph().nodes[training.graph().losses[0]].outputs[0]};
    for (const int64_t rows : {1, 5, 64}) {
      options.logit_rows = rows;
      expect_same_counts(training.measure(options), whole);
    }
  }
}

// Small networks keep their programs.
TEST(SlicedLoss, IsForLogitsOfManyBytes) {
  const Graph graph = in_format(network({}), *parse_format(kRowFormat));
  ProgramOptions options{.micro_batch_size = 1, .format = *parse_format(kRowFormat)};
  constexpr int64_t kExample = kLength * kTokens * int64_t{sizeof(int32_t)};
  options.micro_batch_size = (int64_t{32} << 20) / kExample;
  EXPECT_EQ(with_slices(graph, options).logit_rows, 0);
  options.micro_batch_size += 1;
  EXPECT_EQ(with_slices(graph, options).logit_rows, 8192);
}

}  // namespace
}  // namespace mantissa
