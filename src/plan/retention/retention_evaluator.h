// Memory and time of choices of kept values, for thousands of choices one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "plan/retention/recompute_model.h"

namespace mantissa {

// RecomputeModel::evaluate in two parts. Faster for many choices, since most are refused for their
// time. The model outlives it.
class RetentionEvaluator {
 public:
  explicit RetentionEvaluator(const RecomputeModel& model);
  explicit RetentionEvaluator(RecomputeModel&&) = delete;
  ~RetentionEvaluator();

  // The time for keeping and computing again under a choice.
  double nanoseconds(const std::vector<Retention>& choice);

  // The full outcome of the choice that nanoseconds() was asked about last.
  RecomputeModel::Outcome outcome(int64_t limit_bytes);

  // The same if promising(excess). promising must be true for 0, and for everything below a value
  // for which it is true. The sum is abandoned as soon as promising is false for the known part.
  std::optional<RecomputeModel::Outcome> outcome_if(
      int64_t limit_bytes, const std::function<bool(int64_t excess)>& promising);

  // Says that the next choices are near the one that nanoseconds() was asked about last. This makes
  // them faster, and changes no result.
  void set_base();

 private:
  class Course;
  std::unique_ptr<Course> course_;
};

}  // namespace mantissa
