#include "measure/program_times.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "measure/benchmark_clock.h"
#include "measure/benchmark_rows.h"

namespace mantissa {

ProgramTimes::ProgramTimes(const Program& program, Executor& executor)
    : program_(program),
      executor_(executor),
      profile_ns_(program.instructions.size()),
      instruction_ns_(program.instructions.size()) {
  executor.set_profile(profile_ns_, now_ns);
}

void ProgramTimes::begin() { std::fill(profile_ns_.begin(), profile_ns_.end(), 0); }

void ProgramTimes::end(int64_t step_ns) {
  step_ns_.push_back(step_ns);
  overhead_ns_.push_back(step_ns -
                         std::accumulate(profile_ns_.begin(), profile_ns_.end(), int64_t{0}));
  for (size_t i = 0; i < profile_ns_.size(); ++i) instruction_ns_[i].push_back(profile_ns_[i]);
}

void ProgramTimes::report(Benchmark& result) const {
  for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
    BenchmarkRow row = describe_instruction(program_, i, executor_.context(i));
    row.median_us = median_us(instruction_ns_[i]);
    result.instructions.push_back(std::move(row));
  }
  result.by_op = sums(result.instructions, true);
  result.by_phase = sums(result.instructions, false);
  result.step = total(result.instructions);
  result.step.median_us = median_us(step_ns_);
  result.step_p10_us = 1e-3 * quantile(step_ns_, 0.1);
  result.step_p90_us = 1e-3 * quantile(step_ns_, 0.9);
  result.overhead_us = median_us(overhead_ns_);
  result.arena_bytes = program_.arena_bytes;
}

}  // namespace mantissa
