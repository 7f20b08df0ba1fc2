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

  // The same for the base with another state of one value: in a time that does not grow with the
  // number of values.
  double nanoseconds_with(int value, Retention state);

  // The full outcome of the choice whose time was asked for last.
  RecomputeModel::Outcome outcome(int64_t limit_bytes);

  // The same if promising(excess). promising must be true for 0, and for everything below a value
  // for which it is true. The sum is abandoned as soon as promising is false for the known part.
  std::optional<RecomputeModel::Outcome> outcome_if(
      int64_t limit_bytes, const std::function<bool(int64_t excess)>& promising);

  // Makes the choice whose time was asked for last the base. Choices near it are evaluated faster;
  // no result changes. The first base recomputes all values.
  void set_base();

  // Words of sets of values that were compared so far: tests count them, since times are noisy.
  int64_t compared_words() const;

 private:
  class Course;
  std::unique_ptr<Course> course_;
};

}  // namespace mantissa
