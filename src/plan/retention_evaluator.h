// What choices of what is kept come to, thousands of them one after the other.
#pragma once

#include <memory>
#include <vector>

#include "plan/recompute_model.h"

namespace mantissa {

// RecomputeModel::evaluate in two parts, faster for many choices: most are refused for their time.
// The model outlives it.
class RetentionEvaluator {
 public:
  explicit RetentionEvaluator(const RecomputeModel& model);
  explicit RetentionEvaluator(RecomputeModel&&) = delete;
  ~RetentionEvaluator();

  // What keeping and computing again takes under a choice.
  double nanoseconds(const std::vector<Retention>& choice);

  // All of what the choice comes to of which nanoseconds() was asked last.
  RecomputeModel::Outcome outcome(int64_t limit_bytes);

  // Says that the choices to come are near that one. It makes them faster, no different.
  void take();

 private:
  class Course;
  std::unique_ptr<Course> course_;
};

}  // namespace mantissa
