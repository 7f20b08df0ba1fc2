#include "infer/tasks/regression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/batches/examples.h"
#include "infer/programs.h"
#include "tensor/table_numbers.h"

namespace mantissa {
namespace {

// Outputs that miss targets by as much, in units of their variance, have learned nothing of use.
constexpr double kHighRegressionError = 10;

// Sums over examples of one output, in their order: the same bits everywhere.
struct ErrorSums {
  double squares = 0, magnitudes = 0;       // of errors
  double targets = 0, squared_targets = 0;  // less the mean of training targets

  void add(double output, double target) {
    const double error = output - target;
    squares += error * error;
    magnitudes += std::abs(error);
    targets += target;
    squared_targets += target * target;
  }
  NumberScore score(int64_t examples, const TargetNumber& target) const {
    const auto n = static_cast<double>(std::max<int64_t>(1, examples));
    const double spread = squared_targets - targets * targets / n;
    return {.name = target.column,
            .rmse = target.deviation * std::sqrt(squares / n),
            .mae = target.deviation * magnitudes / n,
            .r2 = spread > 0 ? 1 - squares / spread : squares > 0 ? 0.0 : 1.0};
  }
};

// The scores of all outputs, and their means.
RegressionScore score_of(const std::vector<ErrorSums>& sums, int64_t examples,
                         const Target& target) {
  RegressionScore score;
  const auto outputs = static_cast<double>(sums.size());
  for (size_t k = 0; k < sums.size(); ++k) {
    const NumberScore& one = score.each.emplace_back(sums[k].score(examples, target.numbers[k]));
    score.rmse += one.rmse / outputs;
    score.mae += one.mae / outputs;
    score.r2 += one.r2 / outputs;
  }
  return score;
}

std::string describe_numbers(const Score& score) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "loss %.4f, R2 %.4f, RMSE %.6g", score.loss,
                score.regression->r2, score.regression->rmse);
  return text.data();
}

std::string to_json(const Score& score, const std::string& data, const Target& target,
                    const std::string& model_sha256, std::optional<double> seconds) {
  nlohmann::ordered_json json = {{"data", data},
                                 {"examples", score.examples},
                                 {"target", target_names(target)},
                                 {"r2", score.regression->r2},
                                 {"rmse", score.regression->rmse},
                                 {"mae", score.regression->mae},
                                 {"loss", score.loss}};
  if (target.numbers.size() > 1) {
    nlohmann::ordered_json& targets = json["targets"] = nlohmann::ordered_json::array();
    for (const NumberScore& one : score.regression->each) {
      targets.push_back(
          {{"target", one.name}, {"r2", one.r2}, {"rmse", one.rmse}, {"mae", one.mae}});
    }
  }
  if (seconds) json["seconds"] = *seconds;
  json["model_sha256"] = model_sha256;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Adds up batches.
struct NumberMeasurement {
  Target target;
  ops::LossKind loss;
  OutputPlace place;
  std::vector<ErrorSums> sums = std::vector<ErrorSums>(target.numbers.size());
  int64_t examples = 0, loss_q24 = 0;

  void add(const Programs& programs, const Batch& batch, const StepResult& step) {
    const std::string name = place.labels.empty() ? kTargetTensor : place.labels;
    const auto* targets = static_cast<const int16_t*>(batch.find(name));
    const Tensor outputs = programs.outputs(place.result);
    for (int64_t i = 0; i < batch.count * std::ssize(sums); ++i) {
      sums[static_cast<size_t>(i) % sums.size()].add(
          output_at(outputs, i), std::ldexp(static_cast<double>(targets[i]), kTargetExponent));
    }
    examples += batch.count;
    loss_q24 += step.losses[static_cast<size_t>(place.loss)].loss_q24;
  }

  Score score() const {
    Score result{.examples = examples, .loss_q24 = loss_q24};
    result.loss = ops::loss_value(loss, loss_q24) /
                  static_cast<double>(std::max<int64_t>(1, examples));
    result.regression = score_of(sums, examples, target);
    return result;
  }
};

}  // namespace

std::string target_names(const Target& target) {
  std::string names;
  for (const TargetNumber& number : target.numbers) {
    names += (names.empty() ? "" : ", ") + number.column;
  }
  return names;
}

double predicted_number(const Tensor& outputs, int64_t i, const Target& target) {
  if (target.numbers.empty()) return output_at(outputs, i);
  const TargetNumber& number = target.numbers[static_cast<size_t>(i) % target.numbers.size()];
  return output_at(outputs, i) * number.deviation + number.mean;
}

Task regression_task(const Target& target, std::string data, ops::LossKind loss,
                     const OutputPlace& place) {
  Task task{.loss = loss,
            .counts_correct = false,
            .guessing_loss = 1,  // the variance of standardised targets
            .high_loss = kHighRegressionError,
            .describe = describe_numbers};
  task.begin = [target, loss, place, data = std::move(data)] {
    const auto measurement =
        std::make_shared<NumberMeasurement>(NumberMeasurement{target, loss, place});
    const auto report = [=] {
      const Score score = measurement->score();
      const auto json = [=](const std::string& model_sha256, std::optional<double> seconds) {
        return to_json(score, data, target, model_sha256, seconds);
      };
      return Task::Report{.score = score, .json = json};
    };
    return Task::Measurement{
        .add = [measurement](const Programs& programs, const Batch& batch,
                             const StepResult& step) { measurement->add(programs, batch, step); },
        .report = report};
  };
  return task;
}

}  // namespace mantissa
