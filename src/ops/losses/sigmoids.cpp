// Cross-entropy of sigmoids with weights of positives, the focal factor, smoothed or ordinal
// targets.
#include "ops/losses/sigmoids.h"

#include <algorithm>

#include "numerics/exponential.h"
#include "ops/attributes.h"
#include "ops/losses/loss_rows.h"
#include "reference/numerics/numerics.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kOneQ30 = int64_t{1} << 30;
constexpr int kTargetBits = 17;  // half of a smoothing of 2^-16 is a whole number of 2^-17
constexpr int64_t kMostTermLost = int64_t{1} << 44;
constexpr int64_t kLn2Q24 = 11629080;

// The sigmoid p of a logit: the softmax of 0 and the logit, as the kernels compute it.
struct Sigmoid {
  int64_t p;                    // Q30
  int64_t lost_one, lost_zero;  // -log2 p and -log2 (1 - p), in Q24

  Sigmoid(int64_t logit, int exponent) {
    const int64_t below = natural_to_log2_q16(-static_cast<int64_t>(magnitude(logit)), exponent);
    const int64_t power = exp2_q30(below), sum = kOneQ30 + power;
    const int64_t of_sum = log2_q24(static_cast<uint64_t>(sum)) - (int64_t{30} << 24);
    const bool is_positive = logit > 0;
    p = (((is_positive ? kOneQ30 : power) << 30) + sum / 2) / sum;
    lost_one = is_positive ? of_sum : of_sum - below * 256;
    lost_zero = is_positive ? of_sum - below * 256 : of_sum;
  }
};

// The loss of a probability p of the target's value, its focal factor, and the slope.
class FocalTerm {
 public:
  // lost: -log2 p in Q24.
  FocalTerm(const SigmoidLossAttributes& attributes, int64_t p, int64_t lost)
      : focal_(attributes.focal_q16), p_(p), lost_(lost), factor_(factor(kOneQ30 - p)) {}

  // (1 - p)^focal * -log2 p in Q24.
  int64_t loss() const {
    return std::min(focal_ == 0 ? lost_ : ref_times_rne(lost_, factor_, 30), kMostTermLost);
  }
  // Of the loss in nats, by the logit whose sigmoid p is, with the sign turned: (1 - p)^focal *
  // (1 - p - focal * p * ln p), in Q30 and below 2^33.
  int64_t slope() const {
    const int64_t missed = kOneQ30 - p_;
    if (focal_ == 0) return missed;
    const int64_t nats = ref_times_rne(ref_times_rne(lost_, kLn2Q24, 18), p_, 30);
    return ref_times_rne(missed + ref_times_rne(nats, focal_, 16), factor_, 30);
  }

 private:
  // missed^focal in Q30.
  int64_t factor(int64_t missed) const {
    if (focal_ == 0) return kOneQ30;
    if (missed <= 0) return 0;
    const int64_t below = (int64_t{30} << 24) - log2_q24(static_cast<uint64_t>(missed));
    return exp2_q30(-ref_times_rne(below, focal_, 24));
  }

  int64_t focal_, p_, lost_, factor_;
};

class WeighedSigmoids {
 public:
  WeighedSigmoids(const OpContext& c, int64_t row)
      : attributes_(c.attributes<SigmoidLossAttributes>()),
        logits_(c.inputs[0].as<int32_t>()),
        targets_(sigmoid_targets_of(c)),
        exponent_(c.inputs[0].row_exponent(row)),
        weights_(row_weights_at(c, 2)) {}

  kernels::RowWeights row_weights() const {
    return {weights_, targets_.by_output ? nullptr : targets_.labels};
  }

  kernels::LossSums lost(int64_t row) const {
    int64_t lost = 0, known = 0, right = 0;
    for (int64_t k = 0; k < targets_.outputs; ++k) {
      const int32_t target = sigmoid_target(attributes_, targets_, row, k);
      if (target < 0) continue;
      const int32_t logit = logits_[row * targets_.outputs + k];
      const Sigmoid at(logit, exponent_);
      const int64_t of_one = FocalTerm(attributes_, at.p, at.lost_one).loss();
      const int64_t of_zero = FocalTerm(attributes_, kOneQ30 - at.p, at.lost_zero).loss();
      const int64_t share = share_of_one(target);
      lost += ref_times_rne(ref_times_rne(of_one, weight(k), kernels::kRowWeightBits), share,
                            kTargetBits) +
              ref_times_rne(of_zero, (int64_t{1} << kTargetBits) - share, kTargetBits);
      lost = std::min(lost, int64_t{1} << 48);
      right += (logit > 0) == (target == 1);
      ++known;
    }
    return {lost, known > 0 && right == known ? 1 : 0};
  }

  void prepare(int64_t) {}

  int64_t gradient(int64_t row, int64_t k) const {
    const int32_t target = sigmoid_target(attributes_, targets_, row, k);
    if (target < 0) return 0;
    const Sigmoid at(logits_[row * targets_.outputs + k], exponent_);
    const int64_t of_one = -ref_times_rne(FocalTerm(attributes_, at.p, at.lost_one).slope(),
                                          weight(k), kernels::kRowWeightBits);
    const int64_t of_zero = FocalTerm(attributes_, kOneQ30 - at.p, at.lost_zero).slope();
    const int64_t share = share_of_one(target);
    return shift_right_rne(of_one * share + of_zero * ((int64_t{1} << kTargetBits) - share),
                           kTargetBits);
  }

 private:
  // Of the target, in 2^-17.
  int64_t share_of_one(int32_t target) const {
    return target == 1 ? (int64_t{1} << kTargetBits) - attributes_.smoothing_q16
                       : attributes_.smoothing_q16;
  }
  // In 2^-10.
  int64_t weight(int64_t output) const {
    const WholeList& weights = attributes_.positive_weights;
    if (weights.empty()) return int64_t{1} << kernels::kRowWeightBits;
    return weights[weights.size() == 1 ? 0 : static_cast<size_t>(output)];
  }

  const SigmoidLossAttributes& attributes_;
  const int32_t* logits_;
  kernels::SigmoidTargets targets_;
  int exponent_;
  const int16_t* weights_;
};

}  // namespace

kernels::SigmoidTargets sigmoid_targets_of(const OpContext& c) {
  const Tensor& labels = c.inputs[1];
  return {labels.as<int32_t>(), c.inputs[0].shape.last(),
          labels.shape.rank == c.inputs[0].shape.rank};
}

int32_t sigmoid_target(const SigmoidLossAttributes& attributes,
                       const kernels::SigmoidTargets& targets, int64_t row, int64_t output) {
  if (!attributes.ordinal) return targets.at(row, output);
  const int32_t label = targets.labels[row];
  return label < 0 ? label : label > output ? 1 : 0;
}

void weighed_sigmoids(const OpContext& c) { loss_forward<ByNumbers<WeighedSigmoids>>(c); }

void weighed_sigmoids_backward(const OpContext& c) {
  weighted_loss_backward<ByNumbers<WeighedSigmoids>, kLossGradientExponent>(c);
}

}  // namespace mantissa::ops
