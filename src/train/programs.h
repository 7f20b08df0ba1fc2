// The programs of a network: one for each shape of batch, over one state and one arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/cpu.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "data/batch.h"
#include "graph/graph.h"
#include "plan/program.h"
#include "runtime/executor.h"
#include "runtime/state.h"

namespace mantissa {

// What the programs of a run, or of an evaluation, share besides a state: threads and memory.
struct Machine {
  ThreadPool& pool;
  std::span<std::byte> arena;  // as large as the largest of the programs needs
  Isa isa;
};

// Executors of programs over one graph and one state. They share the arena: one runs at a time.
// Takes batches as their sources give them, and picks the executor by the number of examples.
class Programs {
 public:
  // All references outlive it.
  Programs(const Graph& graph, State& state, const Machine& machine);

  // Makes the program's executor, which the result is. The program outlives it.
  Executor& add(const Program& program);

  // Runs a step, or the forward pass, of the program for as many examples as the batch has. Errors:
  // there is no such program, the batch lacks an input of the network, and those of the executor.
  Result<StepResult> train_step(const Batch& batch, const StepScalars& scalars);
  Result<StepResult> infer(const Batch& batch);

  // The network's output for the last batch of infer().
  Tensor outputs() const { return last_->logits(); }

 private:
  struct Row {
    int64_t examples;  // of a step: all its micro-batches
    std::unique_ptr<Executor> executor;
  };
  // What executors take of a batch.
  struct Inputs {
    const uint8_t* pixels;
    const uint8_t* labels;
  };

  Result<Executor*> pick(const Batch& batch);
  Result<Inputs> inputs_of(const Batch& batch);

  const Graph& graph_;
  State& state_;
  Machine machine_;
  std::vector<Row> rows_;
  Executor* last_ = nullptr;
  std::vector<uint8_t> labels_;  // of the batch at hand, as executors take them
};

// Runs the forward pass of all batches that are left, and calls `found` after each. An error of it
// ends the run.
Status infer_all(Programs& programs, BatchSource& batches,
                 const std::function<Status(const Batch&, const StepResult&)>& found);

}  // namespace mantissa
