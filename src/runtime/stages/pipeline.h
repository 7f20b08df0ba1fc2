// Executes a training program on stages that work at the same time, each on threads of its own, in
// the order of a schedule. Source: AsyncPipeline; METHODS section 5.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/system/cpu.h"
#include "graph/graph.h"
#include "pipeline/schedule.h"
#include "plan/stages/stages.h"
#include "runtime/stages/channel.h"
#include "runtime/stages/stage.h"
#include "runtime/stages/stage_messages.h"
#include "runtime/state.h"

namespace mantissa {

// Takes updates and gives their results, in order, while others are under way. Between begin() and
// the last result the state belongs to the stages.
class PipelineExecutor {
 public:
  // `program`, `plan` and `state` belong to the graph; `options` are the options of the plan's
  // schedule, except the number of updates. `arena` has at least arena_bytes() of its stages; each
  // stage works on `threads` threads. With several processes this is the first, which works on the
  // first stage. The others run serve_stage() for the same program, division and options, and
  // receive the state. References outlive it. Fails if the system has no thread for each stage.
  static Result<std::unique_ptr<PipelineExecutor>> create(
      const Graph& graph, const Program& program, const PipelinePlan& plan,
      const pipeline::Options& options, State& state, std::span<std::byte> arena, int threads,
      Isa isa, const Processes& processes = {});
  ~PipelineExecutor();

  // Memory for transfers between stages, and for copies of batches.
  static int64_t passed_bytes(const Graph& graph, const Program& program, const PipelinePlan& plan,
                              const pipeline::Options& options);

  // Bytes that each process has sent to others, by process; empty: there is one process.
  std::vector<int64_t> bytes_sent() const;

  // Begins this many updates, the first of them the step `step`. The pipeline is empty. `flushes`:
  // all stages work with the weights of the last update, as in kFlush, also in other modes.
  Status begin(int updates, int64_t step, bool flushes = false);
  // For updates that come one after the other: no more are fed after these. Returns how many
  // updates were begun.
  Result<int> end_early();
  // Whether another batch is needed before the next result.
  bool wants_batch() const;
  // Copies the batch of the next update, as Executor::train_step takes it.
  Status feed(std::span<const void* const> batch, const StepScalars& scalars);
  // Waits for the next update.
  Result<StepResult> next_result();

  // The share of the time in which each stage waited, in [0, 1], while updates were under way.
  std::vector<double> idle() const;
  // Stage::missed_updates() of each stage. The pipeline is empty.
  std::vector<pipeline::MissedUpdates> missed_updates() const;

  // From now on records the cells of the first steps, up to this step, until they are taken. Call
  // it before begin(), or after the last result. Only stages of this process.
  void trace(int64_t first_step, int64_t last_step);
  pipeline::Trace take_trace();

  // As Executor::set_observations, made for the same program; in kFlush only, before begin().
  void set_observations(Observations* observations);

 private:
  struct Part {  // of an update
    StepResult result;
    int stages = 0;  // how many have finished it
  };

  // A stage in another process.
  struct Remote {
    int process = 0, stage = 0, replica = 0;
    std::vector<char> reads;        // by input of the network
    std::vector<StateRange> state;  // changed by the stage
    int64_t busy_ns = 0, bytes_sent = 0;
    pipeline::MissedUpdates missed;
  };

  PipelineExecutor(const Graph& graph, const Program& program, const PipelinePlan& plan,
                   const pipeline::Options& options, State& state, const Processes& processes);
  Status start_threads();
  void find_remotes();
  void send_inputs(const UpdateInput& input) const;
  Status take_remote_results(StepResult& sum);
  Status collect_state();
  void work(int stage);
  const UpdateInput* input_of(int update);
  bool finish(int update, const Result<StepResult>& part);
  void stop();
  void wait_for_rest(std::unique_lock<std::mutex>& lock);

  const Graph& graph_;
  const Program& program_;
  const PipelinePlan& plan_;
  pipeline::Options options_;
  State& state_;
  Processes processes_;
  pipeline::Schedule schedule_;
  std::deque<Stage> stages_;  // of this process
  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<Remote> remotes_;
  std::vector<std::unique_ptr<Observations>> observed_;  // by stage
  Observations* observations_ = nullptr;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int run_ = 0;      // grows with each begin(): stages run their cells once each time
  int working_ = 0;  // stages that have not finished this run
  bool stopped_ = false;
  int updates_ = 0;                              // begun
  int fed_ = 0, taken_ = 0;                      // of these
  std::vector<UpdateInput> inputs_;              // by update modulo their number
  std::vector<std::vector<std::byte>> batches_;  // the memory of the inputs, one batch for each
  std::vector<Part> parts_;                      // by update modulo their number
  Status failure_;
  std::chrono::steady_clock::time_point begun_;
  int64_t running_ns_ = 0;  // of everything that was begun and ended
  std::vector<std::thread> threads_;
};

// Memory of some stages.
int64_t arena_bytes(const PipelinePlan& plan, int first, int count);

}  // namespace mantissa
