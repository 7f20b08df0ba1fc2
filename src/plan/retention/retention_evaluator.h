// Memory and time of choices of kept values, for thousands of choices one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "plan/retention/recompute_model.h"

namespace mantissa {

// RecomputeModel::evaluate in two parts, faster for many choices: most are refused for their time.
// The model outlives it.
class RetentionEvaluator {
 public:
  explicit RetentionEvaluator(const RecomputeModel& model);
  explicit RetentionEvaluator(RecomputeModel&&) = delete;
  ~RetentionEvaluator();

  // The time for keeping and computing again under a choice.
  double nanoseconds(const std::vector<Retention>& choice);

  // All of what the choice comes to of which nanoseconds() was asked last.
  RecomputeModel::Outcome outcome(int64_t limit_bytes);

  // The same if promising(excess), which is true of 0 and of everything below what it is true of:
  // adding up ends where it is not true of the part that is known.
  std::optional<RecomputeModel::Outcome> outcome_if(
      int64_t limit_bytes, const std::function<bool(int64_t excess)>& promising);

  // Says that the choices to come are near the one that nanoseconds() was asked about last. It
  // makes them faster, no different.
  void set_base();

 private:
  class Course;
  std::unique_ptr<Course> course_;
};

}  // namespace mantissa
