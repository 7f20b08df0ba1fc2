// Executes a training program on stages that work at the same time, each on threads of its own, in
// the order of a schedule. Source: AsyncPipeline; METHODS section 5.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/cpu.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "graph/graph.h"
#include "pipeline/schedule.h"
#include "plan/stages.h"
#include "runtime/executor.h"
#include "runtime/state.h"

namespace mantissa {

// What is passed from a stage to another, in the order of the micro-batches. Holds as many as the
// sender has in flight, so that it never waits.
class Channel {
 public:
  Channel(const Transfer& transfer, const Executor& sender, int capacity);
  const Transfer& transfer() const { return transfer_; }
  void send(const Executor& sender, int micro_batch);
  void receive(Executor& receiver, int micro_batch);  // waits for it
  void clear();

 private:
  const Transfer& transfer_;
  std::vector<Executor::Passed> passed_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  int sent_ = 0;
};

class PipelineExecutor {
 public:
  // `program` and `plan` are of the graph, `schedule` of one update of the plan's stages in kFlush.
  // `arena` has at least arena_bytes(plan); each stage works on `threads` threads. References
  // outlive it. Fails where the system gives less than one thread for each stage.
  static Result<std::unique_ptr<PipelineExecutor>> create(const Graph& graph,
                                                          const Program& program,
                                                          const PipelinePlan& plan,
                                                          const pipeline::Schedule& schedule,
                                                          State& state, std::span<std::byte> arena,
                                                          int threads, Isa isa);

  // As Executor::train_step, with the same bits.
  Result<StepResult> train_step(std::span<const void* const> batch, const StepScalars& scalars);

  // As Executor::set_observations, made for the same program.
  void set_observations(Observations* observations);

 private:
  PipelineExecutor(const Program& program, const PipelinePlan& plan,
                   const pipeline::Schedule& schedule);
  void run_stage(int stage);

  struct Stage {
    std::unique_ptr<ThreadPool> pool;
    std::vector<int> instructions;
    std::unique_ptr<Observations> observations;        // made when they are first wanted
    std::vector<Program> programs;                     // by instance
    std::vector<std::unique_ptr<Executor>> instances;  // micro-batch i: i modulo the window
  };
  const PipelinePlan& plan_;
  const pipeline::Schedule& schedule_;
  const Program& program_;
  ThreadPool stage_threads_;
  std::vector<Stage> stages_;
  std::deque<Channel> channels_;
  Observations* observations_ = nullptr;
  std::vector<Executor*> others_;  // all but the first instance of the first stage
};

// Memory of all stages.
int64_t arena_bytes(const PipelinePlan& plan);

}  // namespace mantissa
