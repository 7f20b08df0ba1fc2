#include "run/step_times.h"

#include <algorithm>

namespace mantissa {
namespace {

constexpr int64_t kKept = 4096;  // step times that the median is taken from

}  // namespace

int64_t StepTimes::predict_bytes(int64_t steps) {
  return std::min(steps, kKept) * int64_t{sizeof(float)};
}

void StepTimes::reserve(int64_t steps) {
  step_ms_.reserve(static_cast<size_t>(std::min(steps, kKept)));
}

void StepTimes::add(double step_seconds, double busy_seconds) {
  const auto step_ms = static_cast<float>(step_seconds * 1e3);
  if (steps_ < kKept) step_ms_.push_back(step_ms);
  step_ms_[steps_++ % kKept] = step_ms;
  busy_seconds_ += busy_seconds;
}

double StepTimes::examples_per_second(int64_t batch_size) const {
  return busy_seconds_ == 0
             ? 0
             : static_cast<double>(batch_size) * static_cast<double>(steps_) / busy_seconds_;
}

double StepTimes::median_ms() const {
  if (step_ms_.empty()) return 0;
  std::vector<float> sorted = step_ms_;
  const auto middle = sorted.begin() + static_cast<int64_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace mantissa
