// The programs of a network: one for each purpose and size of batch, over one state and one arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/system/cpu.h"
#include "base/system/thread_pool.h"
#include "data/batches/batch.h"
#include "graph/graph.h"
#include "plan/programs/program.h"
#include "runtime/executor.h"
#include "runtime/stages/pipeline.h"
#include "runtime/state.h"

namespace mantissa {

// Threads and memory that programs run on. A view.
struct Machine {
  ThreadPool& pool;
  std::span<std::byte> arena;  // as large as the largest of the programs needs
  Isa isa;
};

// Owns the executors of programs over one network and one state. They share the arena: one runs at
// a time. Takes batches as their sources give them, and picks the executor for each.
class Programs {
 public:
  // All references outlive it.
  Programs(const Graph& graph, State& state, const Machine& machine);

  // Makes the program's executor and returns it. The program outlives it.
  Executor& add(const Program& program) { return add(graph_, program); }

  // The same for a program over the graph brought to shorter sequences (length_programs.h). That
  // graph must outlive this, too. Training programs are added after the graph's own program, and
  // write the same tensors.
  Executor& add(const Graph& graph, const Program& program);

  // Trains on stages (RunPlan::staged) instead of the training program alone. All but the threads
  // outlives it.
  Status add_stages(const Program& program, const PipelinePlan& plan,
                    const pipeline::Options& options, int threads, const Processes& processes = {});

  // Training as a stream: batches go in and results come out, in their order. Stages work on
  // several batches at once. From begin() to the last result, the state belongs to them.
  Status begin(int64_t updates, int64_t step, bool flushes = false);
  // PipelineExecutor::end_early(); without stages one update was begun.
  Result<int> end_early();
  bool wants_batch() const;
  Status feed(const Batch& batch, const StepScalars& scalars);
  Result<StepResult> next_result();
  // As in PipelineExecutor; empty without stages.
  std::vector<double> idle() const;
  std::vector<int64_t> bytes_sent() const;
  std::vector<pipeline::MissedUpdates> missed_updates() const;
  void trace(int64_t first_step, int64_t last_step);
  pipeline::Trace take_trace();

  // Runs a step of the training program for the batch's number of examples and length of sequences.
  // The result's loss and correct rows, as if all rows counted, are those of the graph's rows,
  // whatever the length. Errors: there is no such program, the batch lacks an input of the network,
  // or has it in another type or shape, or the executor fails.
  Result<StepResult> train_step(const Batch& batch, const StepScalars& scalars);

  // Runs the forward pass of the inference program for as many examples. The same errors.
  Result<StepResult> infer(const Batch& batch);

  // An output of the network for the last batch of infer().
  Tensor outputs(int index = 0) const { return inferred_->output(index); }

  // From now on training steps are observed (Executor::set_observations); null: they are not. The
  // observations are made for the program of the graph.
  void observe(Observations* observations);

  // The tensors of the last step, if that was observed, in the order of the program of the graph.
  std::span<const TensorObservation> observed() const;

 private:
  struct Row {
    ProgramKind kind;
    int64_t examples;  // of all micro-batches of a step
    const Graph* graph;
    std::vector<TensorSpec> specs;  // of the graph's inputs
    std::unique_ptr<Executor> executor;
    const Program* program;
    // For a training program of shorter sequences: its tensors, and the index of each one among the
    // tensors of the whole length.
    std::unique_ptr<Observations> observations;
    std::vector<int> places;
  };
  void add_observations(Row& row) const;
  void take_observed(const Row& row);

  Result<const Row*> pick(ProgramKind kind, const Batch& batch) const;
  Status take_inputs(const Graph& graph, std::span<const TensorSpec> specs, const Batch& batch);

  const Graph& graph_;
  State& state_;
  Machine machine_;
  std::vector<TensorSpec> specs_;  // of the network's inputs
  std::vector<Row> rows_;
  std::unique_ptr<PipelineExecutor> stages_;
  std::optional<Result<StepResult>> result_;  // of the step that was fed, without stages
  Executor* inferred_ = nullptr;              // which ran last
  Observations* observations_ = nullptr;
  std::vector<TensorObservation> observed_;  // of a step of shorter sequences
  std::vector<const void*> inputs_;          // of the batch at hand, one for each spec
};

// Runs the forward pass of all batches that are left, and calls `found` after each. An error of it
// ends the run.
Status infer_all(Programs& programs, BatchSource& batches,
                 const std::function<Status(const Batch&, const StepResult&)>& found);

}  // namespace mantissa
