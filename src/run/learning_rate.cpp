#include "run/learning_rate.h"

#include <array>
#include <string>
#include <utility>

namespace mantissa {
namespace {

constexpr std::array<std::pair<std::string_view, ScheduleKind>, 5> kNames = {
    {{"constant", ScheduleKind::kConstant},
     {"step", ScheduleKind::kStep},
     {"cosine", ScheduleKind::kCosine},
     {"one-cycle", ScheduleKind::kOneCycle},
     {"plateau", ScheduleKind::kPlateau}}};

constexpr double kOneCycleStart = 1.0 / 25;

// The peak after schedule.reductions reductions.
double reduced(const Schedule& schedule) {
  double rate = schedule.peak;
  for (int64_t i = 0; i < schedule.reductions && rate > 0; ++i) rate *= schedule.plateau_factor;
  return rate;
}

}  // namespace

Result<ScheduleKind> parse_schedule(std::string_view name) {
  for (const auto& [text, kind] : kNames) {
    if (text == name) return kind;
  }
  return invalid_input("unknown learning-rate schedule '" + std::string(name) +
                       "'; choose constant, step, cosine, one-cycle or plateau");
}

std::string_view schedule_name(ScheduleKind kind) {
  for (const auto& [text, named] : kNames) {
    if (named == kind) return text;
  }
  return "";
}

double cosine_of_pi(double x) {
  // cos(pi x) = -sin(pi (x - 1/2)); the Taylor series of sin on [-pi/2, pi/2].
  const double angle = 3.14159265358979323846 * (x - 0.5);
  const double square = angle * angle;
  double term = angle, sum = angle;
  for (int k = 1; k <= 9; ++k) {
    term = -term * square / static_cast<double>(2 * k * (2 * k + 1));
    sum += term;
  }
  return -sum;
}

double learning_rate(const Schedule& schedule, int64_t step) {
  if (step < schedule.warmup_steps) {
    const double done = static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
    const double start = schedule.kind == ScheduleKind::kOneCycle ? kOneCycleStart : 0;
    return schedule.peak * (start + (1 - start) * done);
  }
  const int64_t after = schedule.steps - schedule.warmup_steps;
  const double done =
      after <= 0 ? 0
                 : static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(after);
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
      return schedule.peak;
    case ScheduleKind::kStep:
      if (4 * step >= 3 * schedule.steps) return schedule.peak / 100;
      return 2 * step >= schedule.steps ? schedule.peak / 10 : schedule.peak;
    case ScheduleKind::kCosine:
      return schedule.peak * (0.5 + 0.5 * cosine_of_pi(done));
    case ScheduleKind::kOneCycle:
      return schedule.peak * (1 - done);
    case ScheduleKind::kPlateau:
      return reduced(schedule);
  }
  return schedule.peak;
}

}  // namespace mantissa
