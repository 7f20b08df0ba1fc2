#include "start/language/sequence_runner.h"

#include <algorithm>
#include <utility>

#include "kernels/kernel_table.h"
#include "start/float_state.h"

namespace mantissa {
namespace {

Result<Program> compile_part(const Graph& graph, const NetworkPart& part, Isa isa) {
  const kernels::KernelTable table = kernels::select_kernels(isa);
  return compile(graph,
                 {.kind = ProgramKind::kInference,
                  .with_loss = part.results.empty(),
                  .exponents = ExponentMode::kCalibrate,
                  .results = part.results,
                  .given = part.given,
                  .format = kFloatFormat},
                 {&table, 1});
}

}  // namespace

Result<int64_t> SequenceRunner::predict_bytes(const Graph& graph, const NetworkPart& part,
                                              int threads, Isa isa) {
  MANTISSA_ASSIGN(const Program program, compile_part(graph, part, isa));
  return program.arena_bytes * threads;
}

Result<SequenceRunner> SequenceRunner::create(const Graph& graph, State& state,
                                              const NetworkPart& part, ThreadPool& pool, Isa isa) {
  MANTISSA_ASSIGN(Program program, compile_part(graph, part, isa));
  SequenceRunner runner(std::move(program), pool);
  for (int i = 0; i < pool.size(); ++i) {
    MANTISSA_ASSIGN(AlignedMemory arena, AlignedMemory::create(runner.program_->arena_bytes));
    runner.arenas_.push_back(std::move(arena));
    runner.executors_.push_back(std::make_unique<Executor>(
        graph, *runner.program_, state, runner.arenas_.back().span(), *runner.alone_, isa));
  }
  return runner;
}

Status SequenceRunner::run(int64_t sequences, const Inputs& inputs, const Take& take) {
  const auto at_once = std::ssize(executors_);
  for (int64_t first = 0; first < sequences; first += at_once) {
    const int64_t count = std::min<int64_t>(at_once, sequences - first);
    std::vector<Result<StepResult>> results(static_cast<size_t>(count), StepResult());
    pool_->parallel_for(count, [&](int64_t i, int) {
      const auto at = static_cast<size_t>(i);
      results[at] = executors_[at]->infer(inputs(first + i));
    });
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      MANTISSA_RETURN_IF_ERROR(results[at]);
      take(first + i, *executors_[at], *results[at]);
    }
  }
  return {};
}

}  // namespace mantissa
