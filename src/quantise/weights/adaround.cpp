#include "quantise/weights/adaround.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/random.h"
#include "quantise/elementary.h"
#include "quantise/weights/part.h"

namespace mantissa::quantise {
namespace {

constexpr double kStretchFrom = -0.1, kStretch = 1.2;
using Numbers = std::vector<double>;

// Numbers of weights are transposed, [features, outputs], so that loops over outputs are inside.
struct Problem {
  size_t rows, features, outputs;
  const RoundingLayer& layer;
  Numbers targets;        // [rows, outputs]
  Numbers steps;          // [outputs]: scale * step of the range
  Numbers low;            // [features, outputs]: the mantissa below, as a number
  Numbers fraction;       // [features, outputs]: the weight's position between it and the next
  Numbers nearest_error;  // [outputs], over all rows

  double weight(size_t feature, size_t output) const {
    return layer.weights[output * features + feature];
  }
  double scale(size_t output) const { return layer.scales[output * layer.scales.size() / outputs]; }
  const float* row(size_t index) const { return layer.inputs.data() + index * features; }
};

// sum += row * matrix; the matrix is [features, outputs].
void add_products(const float* row, const Numbers& matrix, size_t features, size_t outputs,
                  double* sum) {
  for (size_t i = 0; i < features; ++i) {
    const double x = row[i];
    if (x == 0) continue;
    const double* from = matrix.data() + i * outputs;
    for (size_t o = 0; o < outputs; ++o) sum[o] += x * from[o];
  }
}

// For each output, over all rows, of weights [features, outputs].
Numbers squared_errors(const Problem& problem, const Numbers& weights) {
  Numbers errors(problem.outputs), sums(problem.outputs);
  for (size_t r = 0; r < problem.rows; ++r) {
    std::fill(sums.begin(), sums.end(), 0);
    add_products(problem.row(r), weights, problem.features, problem.outputs, sums.data());
    for (size_t o = 0; o < problem.outputs; ++o) {
      const double difference = sums[o] - problem.targets[r * problem.outputs + o];
      errors[o] += difference * difference;
    }
  }
  return errors;
}

// The weights of mantissas, [features, outputs] both.
Numbers weights_of(const Problem& problem, const Numbers& mantissas) {
  Numbers weights(mantissas.size());
  for (size_t k = 0; k < weights.size(); ++k) {
    weights[k] = problem.scale(k % problem.outputs) * mantissas[k];
  }
  return weights;
}

Numbers nearest(const Problem& problem) {
  Numbers mantissas(problem.low.size());
  for (size_t k = 0; k < mantissas.size(); ++k) {
    const size_t output = k % problem.outputs;
    const double ratio = problem.weight(k / problem.outputs, output) / problem.scale(output);
    mantissas[k] = static_cast<double>(nearest_mantissa(ratio, problem.layer.range));
  }
  return mantissas;
}

Numbers wanted_outputs(const Problem& problem) {
  if (!problem.layer.targets.empty()) {
    return {problem.layer.targets.begin(), problem.layer.targets.end()};
  }
  Numbers weights(problem.low.size());
  for (size_t k = 0; k < weights.size(); ++k) {
    weights[k] = problem.weight(k / problem.outputs, k % problem.outputs);
  }
  Numbers targets(problem.rows * problem.outputs);
  for (size_t r = 0; r < problem.rows; ++r) {
    add_products(problem.row(r), weights, problem.features, problem.outputs,
                 targets.data() + r * problem.outputs);
  }
  return targets;
}

Problem problem_of(const RoundingLayer& layer) {
  const auto outputs = static_cast<size_t>(layer.outputs);
  const size_t features = layer.weights.size() / outputs, rows = layer.inputs.size() / features;
  Problem problem{rows, features, outputs, layer, {}, {}, {}, {}, {}};
  const auto lo = static_cast<double>(layer.range.lo), hi = static_cast<double>(layer.range.hi);
  const auto step = static_cast<double>(layer.range.step);
  problem.low.reserve(layer.weights.size());
  problem.fraction.reserve(layer.weights.size());
  for (size_t o = 0; o < outputs; ++o) problem.steps.push_back(problem.scale(o) * step);
  for (size_t i = 0; i < features; ++i) {
    for (size_t o = 0; o < outputs; ++o) {
      const double ratio = problem.weight(i, o) / problem.scale(o);
      const double low = std::clamp(lo + step * std::floor((ratio - lo) / step), lo, hi - step);
      problem.low.push_back(low);
      problem.fraction.push_back(std::clamp((ratio - low) / step, 0.0, 1.0));
    }
  }
  problem.targets = wanted_outputs(problem);
  problem.nearest_error = squared_errors(problem, weights_of(problem, nearest(problem)));
  return problem;
}

// h and its slope over the trained number.
struct Soft {
  double h = 0, slope = 0;
};

Soft soft(double number) {
  const double sigmoid = 1 / (1 + exponential(std::clamp(-number, -40.0, 40.0)));
  const double stretched = kStretchFrom + kStretch * sigmoid;
  if (stretched <= 0) return {0, 0};
  if (stretched >= 1) return {1, 0};
  return {stretched, kStretch * sigmoid * (1 - sigmoid)};
}

// The inverse, for h in [0, 1].
double hard(double h) { return -natural_logarithm(kStretch / (h - kStretchFrom) - 1); }

// Derivative of 1 - |2 h - 1|^beta by h.
double regulariser_slope(double h, int beta) {
  const double distance = std::abs(2 * h - 1);
  double power = 1;
  for (int i = 1; i < beta; ++i) power *= distance;
  return (h > 0.5 ? -2.0 : 2.0) * beta * power;
}

class Training {
 public:
  Training(const Problem& problem, const RoundingSettings& settings)
      : problem_(problem),
        settings_(settings),
        gradient_(problem.low.size()),
        first_(gradient_),
        second_(gradient_),
        weights_(gradient_),
        errors_(problem.outputs),
        soft_(problem.low.size()) {
    numbers_.reserve(problem.fraction.size());
    for (const double h : problem.fraction) numbers_.push_back(hard(h));
    for (const double error : problem.nearest_error) {
      // By the mean of a row, for as many weights: gradients of the size of the regulariser's.
      const double scale = static_cast<double>(problem.rows * problem.features) / settings.batch;
      factors_.push_back(error > 0 ? scale / error : 0);
    }
  }

  Numbers mantissas() {
    for (int step = 0; step < settings_.steps; ++step) {
      add_gradient(step);
      update(step);
    }
    Numbers result = problem_.low;
    const auto range_step = static_cast<double>(problem_.layer.range.step);
    for (size_t k = 0; k < result.size(); ++k) {
      if (soft(numbers_[k]).h >= 0.5) result[k] += range_step;
    }
    return result;
  }

 private:
  // The gradient of the outputs' error by the soft weights, into gradient_.
  void add_gradient(int step) {
    const size_t outputs = problem_.outputs, features = problem_.features;
    for (size_t k = 0; k < weights_.size(); ++k) {
      const size_t output = k % outputs;
      soft_[k] = soft(numbers_[k]);
      weights_[k] = problem_.scale(output) * problem_.low[k] + problem_.steps[output] * soft_[k].h;
    }
    std::fill(gradient_.begin(), gradient_.end(), 0);
    for (int i = 0; i < settings_.batch; ++i) {
      const size_t index = row_of(step, i);
      const float* row = problem_.row(index);
      for (size_t o = 0; o < outputs; ++o) errors_[o] = -problem_.targets[index * outputs + o];
      add_products(row, weights_, features, outputs, errors_.data());
      for (size_t f = 0; f < features; ++f) {
        const double x = row[f];
        if (x == 0) continue;
        double* to = gradient_.data() + f * outputs;
        for (size_t o = 0; o < outputs; ++o) to[o] += x * errors_[o];
      }
    }
  }

  size_t row_of(int step, int i) const {
    constexpr uint32_t kStream = 0xADA00000;
    const auto draw = static_cast<uint64_t>(step) * static_cast<uint64_t>(settings_.batch) +
                      static_cast<uint64_t>(i);
    return uniform_below(random_bits(settings_.seed, RandomStream::kShuffle, kStream, draw),
                         problem_.rows);
  }

  // Adam, with the regulariser's gradient.
  void update(int step) {
    constexpr double kFirst = 0.9, kSecond = 0.999, kEpsilon = 1e-8;
    first_power_ *= kFirst;
    second_power_ *= kSecond;
    const int begin = settings_.steps / 5, left = settings_.steps - begin;
    const int beta = step < begin ? 0 : 20 - 18 * (step - begin) / std::max(left - 1, 1);
    for (size_t k = 0; k < numbers_.size(); ++k) {
      const size_t output = k % problem_.outputs;
      const Soft at = soft_[k];
      double slope = 2 * factors_[output] * problem_.steps[output] * gradient_[k];
      if (beta > 0) slope += settings_.regulariser * regulariser_slope(at.h, beta);
      slope *= at.slope;
      first_[k] += (1 - kFirst) * (slope - first_[k]);
      second_[k] += (1 - kSecond) * (slope * slope - second_[k]);
      const double size = std::sqrt(second_[k] / (1 - second_power_)) + kEpsilon;
      numbers_[k] -= settings_.rate * (first_[k] / (1 - first_power_)) / size;
    }
  }

  const Problem& problem_;
  const RoundingSettings& settings_;
  Numbers numbers_;  // [features, outputs], trained
  Numbers gradient_, first_, second_, weights_;
  Numbers errors_;          // [outputs], of one row
  Numbers factors_;         // [outputs]
  std::vector<Soft> soft_;  // of the numbers
  double first_power_ = 1, second_power_ = 1;
};

Status check(const RoundingLayer& layer, const RoundingSettings& settings) {
  MANTISSA_RETURN_IF_ERROR(check_parts(layer.weights.size(), layer.outputs));
  const auto outputs = static_cast<size_t>(layer.outputs);
  const size_t features = layer.weights.size() / outputs;
  if (features == 0 || layer.inputs.empty() || layer.inputs.size() % features != 0) {
    return invalid_input(std::to_string(layer.inputs.size()) + " inputs are not rows of " +
                         std::to_string(features) + " features");
  }
  const size_t rows = layer.inputs.size() / features;
  if (!layer.targets.empty() && layer.targets.size() != rows * outputs) {
    return invalid_input(std::to_string(layer.targets.size()) + " targets for " +
                         std::to_string(rows) + " rows of " + std::to_string(outputs) + " outputs");
  }
  MANTISSA_RETURN_IF_ERROR(check_parts(outputs, static_cast<int64_t>(layer.scales.size())));
  for (const double scale : layer.scales) {
    if (!(scale > 0 && std::isfinite(scale))) {
      return invalid_input("a scale of weights is not a positive number");
    }
  }
  if (settings.steps < 1 || settings.batch < 1 || !(settings.rate > 0) ||
      !(settings.regulariser >= 0)) {
    return invalid_input(
        "rounding by training needs steps, rows in each step, a rate above 0 and "
        "a regulariser of 0 or more");
  }
  MANTISSA_RETURN_IF_ERROR(check_numbers(layer.inputs));
  MANTISSA_RETURN_IF_ERROR(check_numbers(layer.targets));
  return check_numbers(layer.weights);
}

}  // namespace

Result<RoundedWeights> round_by_training(const RoundingLayer& layer,
                                         const RoundingSettings& settings) {
  MANTISSA_RETURN_IF_ERROR(check(layer, settings));
  const Problem problem = problem_of(layer);
  const Numbers fallback = nearest(problem);
  Numbers mantissas = Training(problem, settings).mantissas();
  const Numbers errors = squared_errors(problem, weights_of(problem, mantissas));
  RoundedWeights result;
  result.mantissas.resize(mantissas.size());
  for (size_t o = 0; o < problem.outputs; ++o) {
    const bool better = errors[o] < problem.nearest_error[o];
    result.nearest_error += problem.nearest_error[o];
    result.error += better ? errors[o] : problem.nearest_error[o];
    for (size_t i = 0; i < problem.features; ++i) {
      const size_t k = i * problem.outputs + o;
      result.mantissas[o * problem.features + i] =
          static_cast<int32_t>(better ? mantissas[k] : fallback[k]);
    }
  }
  return result;
}

}  // namespace mantissa::quantise
