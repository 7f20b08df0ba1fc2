// A stage of a pipeline: executors of its part of a program, one for each micro-batch in flight.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/system/cpu.h"
#include "base/system/thread_pool.h"
#include "graph/graph.h"
#include "ops/updates/predict_weights.h"
#include "pipeline/schedule.h"
#include "pipeline/trace.h"
#include "plan/stages/stages.h"
#include "runtime/executor.h"
#include "runtime/stages/channel.h"
#include "runtime/stages/replica_exchange.h"
#include "runtime/state.h"
#include "transport/transport.h"

namespace mantissa {

// The batch of an update, and the scalars of its step.
struct UpdateInput {
  std::vector<const void*> batch;
  StepScalars scalars;
};

class Stage {
 public:
  using Clock = std::chrono::steady_clock;

  // References outlive it. `arena` is the stage's own.
  Stage(const Graph& graph, const Program& program, const StagePlan& plan, State& state,
        std::span<std::byte> arena, int threads, Isa isa);

  const Executor& any() const { return *instances_[0]; }
  std::span<const int> instructions() const { return instructions_; }
  void set_channels(std::vector<Channel*> receives, std::vector<Channel*> sends);
  void set_observations(Observations* observations);
  // If the stage is one of several processes. Both outlive it; null: it has no replicas.
  void set_processes(Transport& transport, std::unique_ptr<ReplicaExchange> exchange,
                     int first_micro_batch);

  // Before the first micro-batch of a pipeline that is empty.
  void begin(int64_t step, const pipeline::Options& options);

  // Input of an update, waiting for it; null: the pipeline has been stopped.
  using InputOf = std::function<const UpdateInput*(int update)>;
  // Called at the end of an update; false: it failed, and the pipeline is to stop.
  using Finished = std::function<bool(int update, const Result<StepResult>& part)>;
  // Nanoseconds in which it worked, since it was made.
  int64_t busy_ns() const { return busy_ns_; }
  // Counts since it was made.
  const pipeline::MissedUpdates& missed_updates() const { return missed_; }

  // Records the times of its work, from `origin` on, up to this step.
  void trace(Clock::time_point origin, int64_t last_step, int64_t cells);
  std::vector<pipeline::TracedCell> take_trace();

  // Does the cells one after the other, until there is no input. Fails if a channel does. It does
  // not fail if an update does: `finished` is told.
  Status run(std::span<const pipeline::Cell> cells, const InputOf& input_of,
             const Finished& finished);

 private:
  void compute(Executor& executor, std::span<const int> instructions, int micro_batch);
  void compute_gradients(Executor& executor, std::span<const int> instructions, int index);
  void note_work(const pipeline::Cell& cell, Clock::time_point start);
  // False: there is no input, the pipeline has been stopped.
  Result<bool> run_micro_batch(const pipeline::Cell& cell, const InputOf& input_of);
  Result<StepResult> run_update(const pipeline::Cell& cell, const UpdateInput& input);
  bool updates_by_layer() const;
  StepScalars own_scalars(const UpdateInput& input) const;
  void choose_weights(Executor& executor, int instance, int update);
  void write_version(int version, int missed, const StepScalars& scalars);
  void use_version(Executor& executor, int version);
  std::byte* version_place(int version) const;
  int64_t copy_shift(int update) const;

  const StagePlan& plan_;
  State& state_;
  std::span<std::byte> arena_;
  ThreadPool pool_;
  std::vector<int> instructions_;
  // Null: the optimiser keeps nothing to predict from.
  const ops::WeightPrediction* prediction_;
  std::vector<std::unique_ptr<Executor>> instances_;  // micro-batch i: i modulo the window
  std::vector<Executor*> others_;                     // all but the first
  std::vector<const UpdateInput*> inputs_;            // by instance: of its micro-batch
  std::vector<Channel*> receives_, sends_;
  pipeline::Options options_;
  int64_t first_step_ = 0;  // since the pipeline was empty
  int updates_ = 0;         // the same
  // By version: the update that it is for, and updates_ when it was written.
  std::vector<std::pair<int, int>> written_;
  Transport* transport_ = nullptr;
  std::unique_ptr<ReplicaExchange> exchange_;
  int first_micro_batch_ = 0;            // of the step
  std::vector<int> updates_at_forward_;  // by instance
  pipeline::MissedUpdates missed_;
  int64_t busy_ns_ = 0;
  std::vector<pipeline::TracedCell> traced_;
  Clock::time_point trace_origin_;
  int64_t last_traced_ = 0;  // step; 0: none
};

}  // namespace mantissa
