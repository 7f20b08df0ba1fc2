#include "run/plan/steps.h"

#include <chrono>
#include <cmath>
#include <utility>

namespace mantissa {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

StepScalars step_scalars(const RunConfig& config) {
  return {
      .momentum = config.momentum,
      .beta1 = config.beta1,
      .beta2 = config.beta2,
      .epsilon = config.epsilon,
      .weight_decay = config.weight_decay,
      .gradient_scale = 1 / static_cast<double>(config.batch_size * config.labels_per_example()),
      .clip_norm = config.clip_norm,
      .seed = config.seed};
}

Schedule run_schedule(const RunConfig& config, int64_t total_steps, int64_t reductions) {
  return {.kind = config.schedule,
          .peak = config.learning_rate,
          .steps = total_steps,
          .warmup_steps = static_cast<int64_t>(
              std::nearbyint(config.warmup * static_cast<double>(total_steps))),
          .plateau_factor = config.plateau_factor,
          .reductions = reductions};
}

StepScalars scalars_at(const RunConfig& config, int64_t total_steps, int64_t reductions,
                       int64_t step) {
  StepScalars scalars = step_scalars(config);
  scalars.learning_rate = learning_rate(run_schedule(config, total_steps, reductions), step);
  scalars.step = step;
  return scalars;
}

Status take_steps(const StepLoop& loop, int64_t begin, int64_t end) {
  int64_t fed = begin;  // steps whose batches are under way, or done
  for (int64_t step = begin; step < end; ++step) {
    if (loop.before) MANTISSA_RETURN_IF_ERROR(loop.before(step));
    TakenStep taken{.step = step, .learning_rate = loop.scalars(step).learning_rate, .result = {}};
    const auto start = Clock::now();
    while (loop.programs.wants_batch()) {
      const StepScalars scalars = loop.scalars(fed++);
      const auto asked = Clock::now();
      const Batch batch = loop.batches.next();
      taken.waiting_seconds += seconds(Clock::now() - asked);
      MANTISSA_RETURN_IF_ERROR(loop.programs.feed(batch, scalars));
    }
    MANTISSA_ASSIGN(taken.result, loop.programs.next_result());
    taken.seconds = seconds(Clock::now() - start);
    MANTISSA_ASSIGN(const bool goes_on, loop.after(taken));
    if (!goes_on) break;
  }
  return {};
}

}  // namespace mantissa
