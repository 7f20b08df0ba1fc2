// Times of a program's steps, the whole and each instruction.
#pragma once

#include <cstdint>
#include <vector>

#include "measure/benchmark.h"
#include "plan/programs/program.h"
#include "runtime/executor.h"

namespace mantissa {

class ProgramTimes {
 public:
  // Times the steps of the executor, which is the program's. Both outlive it.
  ProgramTimes(const Program& program, Executor& executor);

  void begin();               // of each step
  void end(int64_t step_ns);  // of a step that counts; the others warm up

  // Fills in the instructions, their sums and the step.
  void report(Benchmark& result) const;

 private:
  const Program& program_;
  Executor& executor_;
  std::vector<int64_t> profile_ns_;                   // by instruction, of one step
  std::vector<std::vector<int64_t>> instruction_ns_;  // [instruction][step]
  std::vector<int64_t> step_ns_, overhead_ns_;
};

}  // namespace mantissa
