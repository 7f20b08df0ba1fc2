// Learning rates: which numbers are ones, and how they change over time. Doubles in a fixed order,
// no libm: the same bits everywhere.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace mantissa {

// A NaN clips all weights, and in fp32 numbers below the smallest normal float are 0.
inline constexpr double kLeastLearningRate = 0x1p-126, kLargestLearningRate = 1000;
constexpr bool is_learning_rate(double rate) {
  return rate == 0 || (rate >= kLeastLearningRate && rate <= kLargestLearningRate);
}

enum class ScheduleKind { kConstant, kStep, kCosine, kOneCycle, kPlateau };

Result<ScheduleKind> parse_schedule(std::string_view name);
std::string_view schedule_name(ScheduleKind kind);

struct Schedule {
  ScheduleKind kind = ScheduleKind::kConstant;
  double peak = 0;    // learning rate at the end of the warm-up
  int64_t steps = 1;  // of the whole run
  int64_t warmup_steps = 0;
  double plateau_factor = 1;
  int64_t reductions = 0;  // plateau: how often the loss has stopped falling
};

// The rate of step `step` in [0, steps): rises linearly over the warm-up (from 1/25 of the peak for
// one-cycle), then stays (constant), is divided by 10 after 1/2 and 3/4 of the run (step), falls on
// half a cosine to zero (cosine) or linearly to zero (one-cycle), or is multiplied by
// plateau_factor once per reduction (plateau).
double learning_rate(const Schedule& schedule, int64_t step);

// cos(pi * x) for x in [0, 1], error below 1e-11.
double cosine_of_pi(double x);

}  // namespace mantissa
