// A network in fp32, or a part of it, on sequences: each on one thread, so that its numbers do not
// depend on how many threads there are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/system/cpu.h"
#include "base/system/thread_pool.h"
#include "graph/graph.h"
#include "plan/programs/program.h"
#include "runtime/executor.h"
#include "runtime/memory.h"
#include "runtime/state.h"

namespace mantissa {

// The results of the part, values of the graph, and the values that are given to it. Without
// results: the network's losses.
struct NetworkPart {
  std::vector<int> results = {}, given = {};
};

class SequenceRunner {
 public:
  // The graph, the state and the pool outlive it. As many sequences run at once as the pool has
  // threads.
  static Result<SequenceRunner> create(const Graph& graph, State& state, const NetworkPart& part,
                                       ThreadPool& pool, Isa isa);

  // Inputs of a sequence: the graph's, and behind them the given values.
  using Inputs = std::function<std::vector<const void*>(int64_t sequence)>;
  // Called for one sequence after the other, on the calling thread.
  using Take =
      std::function<void(int64_t sequence, const Executor& done, const StepResult& result)>;
  Status run(int64_t sequences, const Inputs& inputs, const Take& take);

  // The arenas of all sequences that run at once.
  static Result<int64_t> predict_bytes(const Graph& graph, const NetworkPart& part, int threads,
                                       Isa isa);

 private:
  SequenceRunner(Program program, ThreadPool& pool)
      : program_(std::make_unique<Program>(std::move(program))),
        pool_(&pool),
        alone_(std::make_unique<ThreadPool>(1)) {}

  std::unique_ptr<Program> program_;
  ThreadPool* pool_;
  std::unique_ptr<ThreadPool> alone_;  // of each executor
  std::vector<AlignedMemory> arenas_;
  std::vector<std::unique_ptr<Executor>> executors_;
};

}  // namespace mantissa
