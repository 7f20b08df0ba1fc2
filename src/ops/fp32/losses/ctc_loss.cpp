// CTC in fp32: logarithms of sums of probabilities in double (ops/losses/ctc.cpp).
#include "ops/losses/ctc.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/fp32.h"
#include "ops/fp32/losses/loss_parts.h"

namespace mantissa::ops::fp32 {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

double log_of_sum(double a, double b, double c = kImpossible) {
  const double largest = std::max({a, b, c});
  if (largest == kImpossible) return kImpossible;
  return largest + std::log(std::exp(a - largest) + std::exp(b - largest) + std::exp(c - largest));
}

// Forward to backward: the gradient.
OpMemory ctc_memory(const OpShapes& s, const PlanningContext&) {
  return {.saved_bytes = s.inputs[0].count() * int64_t{sizeof(float)}};
}

// An example's sums over paths, alpha and beta of each state at each position.
class PathSums {
 public:
  PathSums(const CtcExample& example, const std::vector<double>& log_p, int64_t classes)
      : example_(example), log_p_(log_p), classes_(classes), states_(example.states.count()) {
    alpha_.assign(static_cast<size_t>(example.positions * states_), kImpossible);
    beta_ = alpha_;
    for (int64_t t = 0; t < example.positions; ++t) find_alpha(t);
    for (int64_t t = example.positions - 1; t >= 0; --t) find_beta(t);
    const int64_t last = example.positions - 1;
    log_all_ = log_of_sum(alpha(last, states_ - 1), alpha(last, states_ - 2));
  }
  double log_all() const { return log_all_; }
  // Of the paths, the share that is in a state at a position.
  double share(int64_t t, int64_t s) const {
    return std::exp(alpha(t, s) + beta_[at(t, s)] - log_all_);
  }

 private:
  size_t at(int64_t t, int64_t s) const { return static_cast<size_t>(t * states_ + s); }
  double alpha(int64_t t, int64_t s) const { return s < 0 ? kImpossible : alpha_[at(t, s)]; }
  double log_p(int64_t t, int64_t s) const {
    return log_p_[static_cast<size_t>(t * classes_ + example_.states.class_of(s))];
  }
  // Beta with the probability of its own position.
  double onward(int64_t t, int64_t s) const {
    return s < states_ ? beta_[at(t, s)] + log_p(t, s) : kImpossible;
  }
  void find_alpha(int64_t t) {
    for (int64_t s = 0; s < states_; ++s) {
      double sum = s < 2 ? 0 : kImpossible;
      if (t > 0) {
        sum = log_of_sum(alpha(t - 1, s), alpha(t - 1, s - 1),
                         example_.states.may_skip_to(s) ? alpha(t - 1, s - 2) : kImpossible);
      }
      alpha_[at(t, s)] = sum + log_p(t, s);
    }
  }
  void find_beta(int64_t t) {
    for (int64_t s = 0; s < states_; ++s) {
      const bool skips = s + 2 < states_ && example_.states.may_skip_to(s + 2);
      beta_[at(t, s)] = t + 1 == example_.positions
                            ? (s + 2 >= states_ ? 0 : kImpossible)
                            : log_of_sum(onward(t + 1, s), onward(t + 1, s + 1),
                                         skips ? onward(t + 1, s + 2) : kImpossible);
    }
  }

  const CtcExample& example_;
  const std::vector<double>& log_p_;
  int64_t classes_, states_;
  std::vector<double> alpha_, beta_;
  double log_all_ = 0;
};

// The example's loss, and its gradient [positions, classes].
double add_sequence(const OpContext& c, const CtcExample& example, const float* logits,
                    float* gradient) {
  const int64_t classes = c.inputs[0].shape.last();
  std::vector<double> log_p;
  for (int64_t t = 0; t < example.positions; ++t) {
    const RowSoftmax soft = row_softmax(logits + t * classes, classes, 1);
    for (int64_t k = 0; k < classes; ++k) {
      log_p.push_back(logits[t * classes + k] - soft.largest - std::log(soft.sum));
    }
  }
  const PathSums sums(example, log_p, classes);
  for (int64_t t = 0; t < example.positions && gradient != nullptr; ++t) {
    std::vector<double> row(static_cast<size_t>(classes));
    for (int64_t k = 0; k < classes; ++k) row[k] = std::exp(log_p[t * classes + k]);
    for (int64_t s = 0; s < example.states.count(); ++s) {
      row[example.states.class_of(s)] -= sums.share(t, s);
    }
    for (int64_t k = 0; k < classes; ++k) {
      gradient[t * classes + k] = static_cast<float>(row[k]);
    }
  }
  return -sums.log_all();
}

void ctc(const OpContext& c) {
  const int64_t examples = c.inputs[0].shape[0], classes = c.inputs[0].shape.last();
  const int64_t each = c.inputs[0].shape.count() / examples;
  std::vector<double> lost(static_cast<size_t>(examples), -1);  // below 0: no path
  for_images(c, examples, [&](int64_t n) {
    const CtcExample example = ctc_example(c, n);
    auto* const left = reinterpret_cast<float*>(c.memory.saved);
    float* const gradient = left == nullptr ? nullptr : left + n * each;
    if (gradient != nullptr) std::fill_n(gradient, each, 0.0F);
    if (!example.has_path()) return;
    lost[n] = std::max(
        0.0, add_sequence(c, example, c.inputs[0].as<float>() + n * each, gradient));
  });
  for (int64_t n = 0; n < examples; ++n) {
    const CtcExample example = ctc_example(c, n);
    ++c.step.loss->rows;
    if (!example.has_path()) continue;
    ++c.step.loss->counted;
    c.step.loss->weight_q10 += int64_t{1} << kernels::kRowWeightBits;
    c.step.loss->correct += example.is_spelled([&](int64_t t) {
      const float* const row = c.inputs[0].as<float>() + n * each + t * classes;
      return std::max_element(row, row + classes) - row;
    });
    add_loss(lost[n] / kLn2 * 0x1p24, *c.step.loss, c.step.totals->exponent_overflow);
  }
}

void ctc_backward(const OpContext& c) {
  const auto* const left = reinterpret_cast<const float*>(c.memory.saved);
  std::copy_n(left, c.inputs[0].shape.count(), c.grad_inputs[0].as<float>());
}

}  // namespace

const OpRows kCtcLoss = {.memory = ctc_memory,
                         .forward = {.run = ctc},
                         .grad_input = {.run = ctc_backward},
                         .kernel = loops_name};

}  // namespace mantissa::ops::fp32
