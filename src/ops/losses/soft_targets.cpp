// Softmax against distributions: of a batch, or of a teacher at a temperature, beside labels.
#include "ops/losses/soft_targets.h"

#include <algorithm>

#include "numerics/nearest_fraction.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/losses/loss_rows.h"
#include "ops/losses/row_softmax.h"
#include "reference/numerics/numerics.h"
#include "tensor/table_numbers.h"

namespace mantissa::ops {
namespace {

constexpr int kShareBits = -kShareExponent;  // of targets

// With labels at input 1: the loss against these, too.
template <bool kHasLabels>
class SoftTargets {
 public:
  SoftTargets(const OpContext& c, int64_t row)
      : logits_(c.inputs[0].as<int32_t>()),
        labels_(kHasLabels ? c.inputs[1].as<int32_t>() : nullptr),
        targets_(c.inputs[kHasLabels ? 2 : 1].as<int16_t>()),
        weights_(row_weights_at(c, kHasLabels ? 3 : 2)),
        classes_(c.inputs[0].shape.last()),
        exponent_(c.inputs[0].row_exponent(row)) {
    if constexpr (kHasLabels) {
      attributes_ = c.attributes<SoftLossAttributes>();
    } else {
      attributes_.temperature_q16 = attributes_.soft_gradient_q16 = attributes_.soft_loss_q16 =
          kUnitQ16;
    }
  }

  kernels::RowWeights row_weights() const { return {weights_, labels_}; }

  kernels::LossSums lost(int64_t row) const {
    const int32_t* const logits = logits_ + row * classes_;
    const int16_t* const targets = targets_ + row * classes_;
    const RowSoftmax soft = softmax(row, attributes_.temperature_q16);
    int64_t shared = 0;  // at most 2^44 in units of 2^-14, twice
    for (int64_t k = 0; k < classes_; ++k) shared += targets[k] * soft.lost_q24(k);
    int64_t lost = ref_times_rne(shift_right_rne(shared, kShareBits), attributes_.soft_loss_q16, 16);
    const int64_t guess = std::max_element(logits, logits + classes_) - logits;
    int64_t label = std::max_element(targets, targets + classes_) - targets;
    if constexpr (kHasLabels) {
      label = labels_[row];
      lost += ref_times_rne(softmax(row, kUnitQ16).lost_q24(label), attributes_.label_q16, 16);
    }
    return {std::min(lost, int64_t{1} << 48), guess == label ? 1 : 0};
  }

  void prepare(int64_t row) {
    soft_ = softmax(row, attributes_.temperature_q16);
    if constexpr (kHasLabels) hard_ = softmax(row, kUnitQ16);
    shares_ = 0;
    for (int64_t k = 0; k < classes_; ++k) shares_ += targets_[row * classes_ + k];
  }

  int64_t gradient(int64_t row, int64_t k) const {
    const int64_t target = int64_t{targets_[row * classes_ + k]} << (30 - kShareBits);
    const int64_t missed =
        shift_right_rne(soft_.probability_q30(k) * shares_, kShareBits) - target;
    if constexpr (!kHasLabels) return missed;
    const int64_t of_label = hard_.probability_q30(k) - (k == labels_[row] ? int64_t{1} << 30 : 0);
    return shift_right_rne(
        of_label * attributes_.label_q16 + missed * attributes_.soft_gradient_q16, 16);
  }

 private:
  RowSoftmax softmax(int64_t row, int64_t temperature_q16) const {
    return {logits_ + row * classes_, classes_, exponent_, temperature_q16};
  }

  const int32_t *logits_, *labels_;
  const int16_t *targets_, *weights_;
  int64_t classes_;
  int exponent_;
  SoftLossAttributes attributes_;
  RowSoftmax soft_, hard_;
  int64_t shares_ = 0;
};

}  // namespace

void write_shares(const Tensor& logits, double temperature, int16_t* shares) {
  const int64_t classes = logits.shape.last(), rows = logits.count() / classes;
  const int64_t temperature_q16 = nearest_whole(temperature, kUnitQ16);
  for (int64_t row = 0; row < rows; ++row) {
    int16_t* const to = shares + row * classes;
    if (logits.type == DataType::kFloat) {
      fp32::write_shares(logits.as<float>() + row * classes, classes, temperature, kShareBits, to);
      continue;
    }
    const RowSoftmax soft(logits.as<int32_t>() + row * classes, classes, logits.row_exponent(row),
                          temperature_q16);
    for (int64_t k = 0; k < classes; ++k) {
      to[k] = static_cast<int16_t>(shift_right_rne(soft.probability_q30(k), 30 - kShareBits));
    }
  }
}

void soft_loss(const OpContext& c) { loss_forward<ByNumbers<SoftTargets<false>>>(c); }
void soft_backward(const OpContext& c) {
  loss_backward<ByNumbers<SoftTargets<false>>, kLossGradientExponent>(c);
}
void distilled_loss(const OpContext& c) { loss_forward<ByNumbers<SoftTargets<true>>>(c); }
void distilled_backward(const OpContext& c) {
  loss_backward<ByNumbers<SoftTargets<true>>, kLossGradientExponent>(c);
}

}  // namespace mantissa::ops
