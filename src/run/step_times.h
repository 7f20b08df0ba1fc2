// How long the steps of a training run take.
#pragma once

#include <cstdint>
#include <vector>

namespace mantissa {

class StepTimes {
 public:
  // Bytes that it will hold after `steps` steps.
  static int64_t predict_bytes(int64_t steps);

  // Takes that memory now: add() then allocates nothing.
  void reserve(int64_t steps);

  // A step took `step_seconds`; with waiting for its batch, `busy_seconds`.
  void add(double step_seconds, double busy_seconds);

  // Over all steps, waiting included.
  double busy_seconds() const { return busy_seconds_; }
  double examples_per_second(int64_t batch_size) const;  // 0 without any

  // The median of the last 4096 steps, without waiting; 0 without any.
  double median_ms() const;

 private:
  std::vector<float> step_ms_;  // a ring of the last ones
  int64_t steps_ = 0;
  double busy_seconds_ = 0;
};

}  // namespace mantissa
