// The absolute error, and Huber's: a square near zero and a line beyond.
#include "ops/losses/penalties.h"

#include <algorithm>

#include "ops/attributes.h"
#include "ops/losses/loss_rows.h"
#include "reference/numerics/numerics.h"

namespace mantissa::ops {
namespace {

// Results and targets in Q24 stay within this: 4096.
constexpr int64_t kMostQ24 = int64_t{1} << 36;

int64_t number_q24(int64_t mantissa, int exponent) {
  return saturate(rescale_rne(mantissa, -(exponent + 24)), kMostQ24);
}

class Penalties {
 public:
  Penalties(const OpContext& c, int64_t row)
      : attributes_(c.attributes<RegressionAttributes>()),
        results_(c.inputs[0].as<int32_t>()),
        targets_(c.inputs[1].as<int16_t>()),
        outputs_(c.inputs[0].shape.last()),
        exponent_(c.inputs[0].row_exponent(row)),
        target_exponent_(*c.inputs[1].exponent),
        weights_(row_weights_at(c, 2)) {}

  kernels::RowWeights row_weights() const { return {weights_, nullptr}; }

  // The mean over the outputs, to nearest even.
  kernels::LossSums lost(int64_t row) const {
    int64_t sum = 0;  // at most 2^37 for each of 2^12 outputs; Huber's twice as much
    for (int64_t k = 0; k < outputs_; ++k) sum += penalty(difference(row, k));
    return {ref_divide_rne(sum, outputs_), 0};
  }

  void prepare(int64_t) {}

  int64_t gradient(int64_t row, int64_t k) const {
    const int64_t d = difference(row, k);
    const int64_t slope = attributes_.penalty == Penalty::kHuber ? saturate(d, attributes_.delta_q24)
                                                                 : (int64_t{d > 0} - (d < 0)) << 24;
    return ref_divide_rne(slope * 64, outputs_);
  }

 private:
  // In Q24.
  int64_t difference(int64_t row, int64_t k) const {
    const int64_t at = row * outputs_ + k;
    return number_q24(results_[at], exponent_) - number_q24(targets_[at], target_exponent_);
  }

  // Within delta d^2 / 2, beyond delta * (|d| - delta / 2), to nearest even.
  int64_t penalty(int64_t d) const {
    const auto size = static_cast<int64_t>(magnitude(d));
    if (attributes_.penalty == Penalty::kAbsolute) return size;
    const int64_t delta = attributes_.delta_q24, within = std::min(size, delta);
    return ref_times_rne(2 * size - within, within, 25);
  }

  const RegressionAttributes& attributes_;
  const int32_t* results_;
  const int16_t* targets_;
  int64_t outputs_;
  int exponent_, target_exponent_;
  const int16_t* weights_;
};

}  // namespace

void penalty_loss(const OpContext& c) { loss_forward<ByNumbers<Penalties>>(c); }

void penalty_backward(const OpContext& c) {
  weighted_loss_backward<ByNumbers<Penalties>, kLossGradientExponent>(c);
}

}  // namespace mantissa::ops
