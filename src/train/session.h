// Training of any network on tensors in memory, step by step: state, programs and memory of a run
// that has no folder and no data set.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/system/thread_pool.h"
#include "data/batches/examples.h"
#include "graph/graph.h"
#include "infer/frozen_network.h"
#include "infer/programs.h"
#include "plan/programs/program.h"
#include "run/learning_rate.h"
#include "run/memory_plan.h"
#include "run/plan/steps.h"
#include "run/settings/run_config.h"
#include "runtime/memory.h"
#include "runtime/observation.h"
#include "runtime/state.h"

namespace mantissa {

class Session {
 public:
  // Plans the memory, compiles, and sets the initial weights. Settings that concern a run's data
  // and files mean nothing here. Errors as in a run.
  static Result<std::unique_ptr<Session>> create(Graph network, const RunConfig& config);

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // A step on batch_size examples.
  Result<StepResult> step(const Batch& batch, double learning_rate);

  // Steps on the batches, with the rates of the schedule's steps [begin, end). `after` is told of
  // each, and says whether to go on.
  Status train(BatchSource& batches, const Schedule& schedule, int64_t begin, int64_t end,
               const std::function<bool(const TakenStep&)>& after);

  // The same as step(), with its tensors observed: they are valid until the next one.
  Result<StepResult> observed_step(const Batch& batch, double learning_rate);
  std::span<const TensorObservation> observed() const { return observations_->tensors(); }
  const Program& program() const { return training_; }

  // The network with fixed exponents, found on some of these examples.
  Result<FrozenNetwork> freeze(const Examples& examples);

  // All of the state, and how many steps were taken. Loading wants the same network and settings.
  Status save(const std::string& path) const;
  Status load(const std::string& path);

  const RunConfig& config() const { return config_; }
  const Graph& network() const { return network_; }  // before the format changed it
  const Graph& graph() const { return graph_; }
  State& state() { return *state_; }
  const State& state() const { return *state_; }
  int64_t steps() const { return steps_; }
  const MemoryPlan& memory() const { return memory_; }

 private:
  Session(Graph network, const RunConfig& config);
  Status compile();
  std::string identity() const;
  StepScalars scalars(double learning_rate, int64_t step) const;

  RunConfig config_;
  Graph network_, graph_;
  Program training_, calibration_;
  MemoryPlan memory_;
  ThreadPool pool_;
  std::optional<State> state_;
  std::optional<AlignedMemory> arena_;
  std::optional<Programs> programs_;
  std::optional<Observations> observations_;
  std::atomic<int64_t> steps_ = 0;  // read by other threads too
};

// The labels or rows of targets that an example has for a loss of the graph: one, or one for each
// element of a sequence.
int64_t labels_per_example(const Graph& graph, int loss);

// Runs the forward pass of a frozen network on all examples, this many at once. `found` is called
// after each batch.
Status run_frozen(
    FrozenNetwork& network, const Examples& examples, int64_t batch_size, bool with_loss,
    ThreadPool& pool, Isa isa,
    const std::function<Status(const Batch&, const StepResult&, const Programs&)>& found);

}  // namespace mantissa
