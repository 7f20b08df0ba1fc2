#include "train/divergence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/real_text.h"

namespace mantissa {
namespace {

// Times Task::high_loss.
constexpr double kTooHigh = 10;
constexpr double kFarTooHigh = 10 * kTooHigh;

std::string short_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

}  // namespace

TrainingLoss last_training_loss(std::span<const MetricsLine> lines, int64_t steps) {
  double sum = 0;
  TrainingLoss last;
  for (size_t i = lines.size(); i > 0 && last.steps < steps; --i) {
    const int64_t of_line = lines[i - 1].step - (i > 1 ? lines[i - 2].step : 0);
    sum += lines[i - 1].loss * static_cast<double>(of_line);
    last.steps += of_line;
  }
  if (last.steps > 0) last.mean = sum / static_cast<double>(last.steps);
  return last;
}

std::string divergence(const Task& task, const TrainingLoss& training, double test_loss) {
  const std::string guessing = ", that of guessing " + short_text(task.guessing_loss);
  // Not a number is absurd, too.
  if (training.steps > 0 && !(training.mean <= kTooHigh * task.high_loss * task.training_scale)) {
    return "the loss of the last " + std::to_string(training.steps) +
           (training.steps == 1 ? " step is " : " steps is ") + short_text(training.mean) +
           guessing;
  }
  if (!(test_loss <= kFarTooHigh * task.high_loss)) {
    return "the test loss is " + short_text(test_loss) + guessing;
  }
  return "";
}

Status check_converged(const RunConfig& config, const std::string& diverged) {
  if (diverged.empty()) return {};
  return failed(
      "training diverged: " + diverged +
      "; start anew (another --out, or --overwrite) with a smaller --learning-rate than " +
      real_text(config.learning_rate));
}

std::string learning_note(const RunConfig& config, const Task& task, const TrainingLoss& training) {
  const double of_guessing = task.guessing_loss * task.training_scale;
  if (training.steps == 0 || training.mean < 0.99 * of_guessing) return "";
  return "the loss of the last " + std::to_string(training.steps) + " steps is " +
         short_text(training.mean) + ", no better than that of guessing (" +
         short_text(of_guessing) +
         "): nothing was learned; try another --learning-rate than " +
         real_text(config.learning_rate) + ", a smaller one first";
}

}  // namespace mantissa
