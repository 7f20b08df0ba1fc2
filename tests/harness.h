// A network with its program and state, trained step by step in a test.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "data/datasets/dataset.h"
#include "infer/freeze.h"
#include "kernels/kernel_table.h"
#include "models/models.h"
#include "plan/passes/network_format.h"
#include "plan/programs/program.h"
#include "plan/programs/verify.h"
#include "plan/retention/gradient_rows.h"
#include "runtime/executor.h"
#include "runtime/stages/pipeline.h"
#include "runtime/stages/stage_server.h"
#include "runtime/state.h"
#include "tests/pipeline/local_transport.h"

namespace mantissa::testing {

inline const Dataset& fashion_mnist() {
  static const Dataset data = [] {
    auto loaded = load_dataset("fashion-mnist", true, true);
    if (!loaded.ok()) {
      ADD_FAILURE() << loaded.error().message;
      std::abort();
    }
    return std::move(*loaded);
  }();
  return data;
}

// The first labels of a set, as executors take them.
inline std::vector<int32_t> first_labels(const ExampleSet& images, int64_t count) {
  return {images.labels().begin(), images.labels().begin() + count};
}

// A batch for graphs of models, and of with_loss.
inline std::array<const void*, 2> inputs(const std::vector<uint8_t>& pixels,
                                         const std::vector<int32_t>& labels) {
  return {pixels.data(), labels.data()};
}

// The graph with this loss, unless it has one. Label smoothing in units of 2^-16.
// by_output: sigmoids with a label for each output.
inline Graph with_loss(Graph graph, ops::LossKind loss = ops::LossKind::kCrossEntropy,
                       int64_t smoothing = 0, bool by_output = false) {
  if (!graph.losses.empty()) return graph;
  auto result = ops::with_loss(std::move(graph), loss,
                               static_cast<double>(smoothing) / ops::kSmoothingOne, by_output);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return std::move(*result);
}

struct HarnessOptions {
  std::string model = "mlp";
  std::string format = "bfp8";
  OptimizerKind optimizer = OptimizerKind::kMomentum;
  int64_t batch_size = 16;
  int64_t micro_batch_size = 16;
  int threads = 1;
  Isa isa = best_isa();
  uint64_t seed = 1;
  double learning_rate = 0;  // 0: the optimizer's default, else 0.05
  double clip_norm = 0;      // 0: no clipping
  int64_t first_step = 0;    // the first value of the step counter
  double width = 1;          // multiplies channels
  ops::LossKind loss = ops::LossKind::kCrossEntropy;
  int64_t label_smoothing = 0;  // in units of 2^-16
  bool reuses_memory = true;    // else every buffer still holds its data after the step
  uint64_t retention_key = 0;   // which values are computed again, at random; 0: none
  bool by_rows = false;         // gradients of weights: computed by rows if that is possible
  int stages = 0;               // of a pipeline; 0: none
  int replicas = 0;             // of these stages, a process each; 0: stages are threads
  pipeline::Mode pipeline = pipeline::Mode::kFlush;
  pipeline::FlushForm form = pipeline::FlushForm::kSplit;
  pipeline::Windows windows = pipeline::Windows::kLean;
  bool predicts_weights = false;
  int64_t stage_warmup = 0;
  bool updates_together = false;  // all layers of a stage, after its whole backward pass
  int64_t rotation = 0;           // by how much the first example of a batch comes later
  const kernels::KernelTable* kernels = nullptr;  // in place of the best for `isa`
};

// A network in a format, for tests over many of both.
struct NetworkInFormat {
  const char *model, *format;
  double width = 1;
};

// Small steps of one micro-batch, on two threads.
inline HarnessOptions small_steps(const NetworkInFormat& network) {
  return {.model = network.model,
          .format = network.format,
          .batch_size = 8,
          .micro_batch_size = 8,
          .threads = 2,
          .width = network.width};
}

// All counts of two steps.
inline void expect_same_counts(const StepResult& a, const StepResult& b) {
  EXPECT_EQ(a.loss_q24, b.loss_q24);
  EXPECT_EQ(a.saturated, b.saturated);
  EXPECT_EQ(a.requantised, b.requantised);
  EXPECT_EQ(a.mispredictions, b.mispredictions);
  EXPECT_EQ(a.guard_violations, b.guard_violations);
  EXPECT_EQ(a.re_executions, b.re_executions);
}

// How each value is retained, drawn for each.
inline std::vector<Retention> drawn_retention(const Graph& graph, uint64_t key) {
  std::vector<Retention> retention;
  for (size_t value = 0; value < graph.values.size(); ++value) {
    const uint64_t bits = random_bits(key, RandomStream::kShuffle, 0, value);
    retention.push_back(static_cast<Retention>(uniform_below(bits, 3)));
  }
  return retention;
}

// Offsets of buffers that share no memory.
inline void spread_out(Program& program) {
  int64_t offset = 0;
  for (Buffer& buffer : program.buffers) {
    buffer.offset = offset;
    offset += (buffer.bytes + 63) / 64 * 64;
  }
  program.arena_bytes = offset;
}

class Harness {
 public:
  explicit Harness(const HarnessOptions& options) : options_(options), pool_(options.threads) {
    ModelOptions model;
    model.channel_means = {73};
    model.width_multiplier = options.width;
    model.loss = options.loss;
    model.label_smoothing = static_cast<double>(options.label_smoothing) / ops::kSmoothingOne;
    auto graph = build_model(options.model, model);
    EXPECT_TRUE(graph.ok());
    init(*graph);
  }

  Harness(const HarnessOptions& options, Graph graph) : options_(options), pool_(options.threads) {
    init(with_loss(std::move(graph), options.loss, options.label_smoothing));
  }

  ~Harness() {
    if (transports_.empty()) return;
    for (size_t p = 1; p < transports_.size(); ++p) {
      stage_messages::send_command(*transports_[0], static_cast<int>(p),
                                   {.kind = stage_messages::CommandKind::kEnd});
    }
    for (std::thread& thread : processes_) thread.join();
  }

  // One step on a keyed batch of Fashion-MNIST.
  StepResult step() {
    if (pipeline_ != nullptr) return stretch(1)[0];
    const StepScalars scalars = next_batch();
    return checked(executor_->train_step(inputs(pixels_, labels_), scalars));
  }

  // `steps` steps of a pipeline, which is empty before and after. `flushes` as in begin().
  std::vector<StepResult> stretch(int steps, bool flushes = false) {
    const Status begun = pipeline_->begin(steps, options_.first_step + steps_ + 1, flushes);
    EXPECT_TRUE(begun.ok());
    std::vector<StepResult> results;
    while (static_cast<int>(results.size()) < steps) {
      while (pipeline_->wants_batch()) {
        const StepScalars scalars = next_batch();
        EXPECT_TRUE(pipeline_->feed(inputs(pixels_, labels_), scalars).ok());
      }
      results.push_back(checked(pipeline_->next_result()));
    }
    return results;
  }

  // The same, but no step is fed after that many results. Returns how many were taken.
  int stretch_until(int steps, int results) {
    EXPECT_TRUE(pipeline_->begin(steps, options_.first_step + steps_ + 1).ok());
    int end = steps;
    for (int taken = 0; taken < end; ++taken) {
      while (pipeline_->wants_batch()) {
        const StepScalars scalars = next_batch();
        EXPECT_TRUE(pipeline_->feed(inputs(pixels_, labels_), scalars).ok());
      }
      if (taken == results) end = *pipeline_->end_early();
      if (taken < end) checked(pipeline_->next_result());
    }
    return end;
  }

  // Steps with a learning rate that falls linearly to zero, as a whole training run would have.
  void train_to_rest(int steps) {
    const double peak = options_.learning_rate;
    for (int i = 0; i < steps; ++i) {
      options_.learning_rate = peak * (1 - static_cast<double>(i) / steps);
      step();
    }
  }

  // The mean loss of `steps` steps.
  double train(int steps) {
    double loss = 0;
    for (int i = 0; i < steps; ++i) loss += step().loss;
    return loss / steps;
  }

  std::string weights_sha256() const { return state_->sha256(StateGroup::kStatistics); }
  std::string state_sha256() const { return state_->sha256(StateGroup::kPredictor); }

  const HarnessOptions& options() const { return options_; }
  const Graph& graph() const { return graph_; }
  const Program& program() const { return program_; }
  State& state() { return *state_; }
  Executor& executor() { return *executor_; }
  PipelineExecutor& pipeline() { return *pipeline_; }
  ThreadPool& pool() { return pool_; }

 private:
  static StepResult checked(const Result<StepResult>& result) {
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return result.ok() ? *result : StepResult{};
  }

  // The batch of the next step, in pixels_ and labels_, and its scalars.
  StepScalars next_batch() {
    const ExampleSet& images = fashion_mnist().train;
    const int64_t bytes = images.picture_form().bytes();
    pixels_.resize(static_cast<size_t>(options_.batch_size * bytes));
    labels_.resize(static_cast<size_t>(options_.batch_size));
    for (int64_t i = 0; i < options_.batch_size; ++i) {
      const auto example = static_cast<int64_t>(
          uniform_below(random_bits(7, RandomStream::kShuffle, 0,
                                    static_cast<uint64_t>(steps_ * options_.batch_size + i)),
                        static_cast<uint64_t>(images.count)));
      const int64_t at = (i + options_.rotation) % options_.batch_size;
      std::memcpy(&pixels_[at * bytes], &images.pixels()[example * bytes],
                  static_cast<size_t>(bytes));
      labels_[at] = images.labels()[example];
    }
    ++steps_;
    return {.learning_rate = options_.learning_rate,
            .momentum = 0.9,
            .weight_decay = 5e-4,
            .gradient_scale = 1 / static_cast<double>(options_.batch_size),
            .clip_norm = options_.clip_norm,
            .seed = options_.seed,
            .step = options_.first_step + steps_};
  }

  void init(const Graph& graph) {
    if (options_.learning_rate == 0) {
      options_.learning_rate = optimizer(options_.optimizer).learning_rate;
    }
    if (options_.learning_rate == 0) options_.learning_rate = 0.05;
    const auto format = parse_format(options_.format);
    EXPECT_TRUE(format.ok());
    graph_ = in_format(graph, *format);
    auto state = State::create(training_layout(graph_, *format, options_.optimizer));
    EXPECT_TRUE(state.ok());
    state_.emplace(std::move(*state));
    initialise(graph_, *format, options_.seed, *state_);
    const kernels::KernelTable table = kernels::select_kernels(options_.isa);
    const PlanningContext planning{&table, options_.threads};
    ProgramOptions program_options{
        .micro_batch_size = options_.micro_batch_size,
        .micro_batches = static_cast<int>(options_.batch_size / options_.micro_batch_size),
        .optimizer = options_.optimizer,
        .exponents = training_exponents(*format),
        .clips = options_.clip_norm > 0,
        .retention = options_.retention_key == 0 ? std::vector<Retention>{}
                                                 : drawn_retention(graph_, options_.retention_key),
        .format = *format};
    if (options_.by_rows) {
      const auto rows = row_choices(graph_, program_options, planning, {}, 0);
      program_options.by_rows = by_rows(graph_, rows, rows.size());
    }
    if (options_.stages > 1 && options_.retention_key != 0) {
      keep_passed_values(planning, program_options);
    }
    auto program = compile(graph_, program_options, planning);
    EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message);
    program_ = std::move(*program);
    const Status verified = verify(graph_, program_);
    EXPECT_TRUE(verified.ok()) << (verified.ok() ? "" : verified.error().message);
    if (!options_.reuses_memory) spread_out(program_);
    auto arena = AlignedMemory::create(program_.arena_bytes);
    EXPECT_TRUE(arena.ok());
    arena_.emplace(std::move(*arena));
    // An instruction may only read what was written before: start from garbage.
    std::memset(arena_->data(), 0xA5, static_cast<size_t>(program_.arena_bytes));
    executor_.emplace(graph_, program_, *state_, arena_->span(), pool_,
                      options_.kernels == nullptr ? table : *options_.kernels);
    if (options_.stages > 0) init_pipeline();
  }

  // Stages of about equal numbers of nodes; a convolution and its batch norm stay together.
  std::vector<int> stages_of_nodes() const {
    std::vector<int> stages;
    const size_t count = graph_.nodes.size();
    for (size_t n = 0; n < count; ++n) {
      const bool is_norm = graph_.nodes[n].op->traits.takes == TakenExponents::kOfChannels;
      const int even = static_cast<int>(n * options_.stages / count);
      stages.push_back(is_norm ? stages.back() : even);
    }
    return stages;
  }

  // Keeps the values that one stage passes to another.
  void keep_passed_values(const PlanningContext& planning, ProgramOptions& program_options) {
    ProgramOptions keeps_all = program_options;
    keeps_all.retention.clear();
    const auto kept = compile(graph_, keeps_all, planning);
    ASSERT_TRUE(kept.ok()) << kept.error().message;
    const std::vector<bool> passed = passed_values(graph_, *kept, stages_of_nodes());
    for (size_t value = 0; value < passed.size(); ++value) {
      if (passed[value]) program_options.retention[value] = Retention::kKept;
    }
  }

  void init_pipeline() {
    const pipeline::Options way = {
        .mode = options_.pipeline,
        .form = options_.form,
        .windows = options_.windows,
        .stages = options_.stages,
        .accumulate = program_.options.micro_batches / std::max(1, options_.replicas),
        .updates = 1000,
        .predicts_weights = options_.predicts_weights,
        .stage_warmup = options_.stage_warmup};
    auto schedule = pipeline::make_schedule(way);
    ASSERT_TRUE(schedule.ok()) << schedule.error().message;
    auto plan = plan_stages(graph_, program_, state_->layout(), stages_of_nodes(), *schedule);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    plan_ = std::move(*plan);
    for (StagePlan& stage : plan_.stages) {
      if (!options_.updates_together) break;
      stage.last_grad_input.clear();
      stage.end_of_update.clear();
    }
    const bool is_alone = options_.replicas == 0;
    auto arena = AlignedMemory::create(arena_bytes(plan_, 0, is_alone ? options_.stages : 1));
    ASSERT_TRUE(arena.ok());
    stage_arena_.emplace(std::move(*arena));
    std::memset(stage_arena_->data(), 0xA5, stage_arena_->span().size());
    const Processes processes = is_alone ? Processes{} : start_processes(way);
    auto made =
        PipelineExecutor::create(graph_, program_, plan_, way, *state_, stage_arena_->span(),
                                 options_.threads, options_.isa, processes);
    ASSERT_TRUE(made.ok()) << made.error().message;
    pipeline_ = std::move(*made);
  }

  // All processes but the first. They start from nothing but the messages that they receive.
  Processes start_processes(const pipeline::Options& way) {
    transports_ = LocalTransport::connect(options_.replicas * options_.stages);
    const auto processes_of = [this](size_t p) {
      return Processes{transports_[p].get(), options_.replicas, options_.stages};
    };
    for (size_t p = 1; p < transports_.size(); ++p) {
      processes_.emplace_back([this, way, processes = processes_of(p)] {
        auto state = State::create(state_->layout());
        auto arena = AlignedMemory::create(arena_bytes(plan_, processes.stage(), 1));
        std::memset(state->all_bytes().data(), 0xA5, state->all_bytes().size());
        std::memset(arena->data(), 0xA5, arena->span().size());
        const Status served = serve_stage(graph_, program_, plan_, way, *state, arena->span(),
                                          options_.threads, options_.isa, processes);
        EXPECT_TRUE(served.ok()) << (served.ok() ? "" : served.error().message);
      });
    }
    return processes_of(0);
  }

  HarnessOptions options_;
  ThreadPool pool_;
  Graph graph_;
  Program program_;
  std::optional<State> state_;
  std::optional<AlignedMemory> arena_;
  std::optional<Executor> executor_;
  PipelinePlan plan_;
  std::optional<AlignedMemory> stage_arena_;
  std::vector<std::unique_ptr<LocalTransport>> transports_;  // by process
  std::vector<std::thread> processes_;
  std::unique_ptr<PipelineExecutor> pipeline_;
  std::vector<uint8_t> pixels_;
  std::vector<int32_t> labels_;
  int64_t steps_ = 0;
};

}  // namespace mantissa::testing
