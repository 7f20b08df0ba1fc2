// Dice's loss, soft: with p the softmax and t the targets of 0 and 1 of an example's places, and s
// the smoothing, 1 - the mean over the classes of (2 sum p t + s) / (sum p + sum t + s). It counts
// for each place of the example that counts, so that the mean of a batch is one over places.
//
// Sums are exact in Q24. Quotients are real numbers of 53 bits, by integer instructions, once for
// each example and class. The gradient of a probability is one of two numbers for each class.
#include "ops/losses/dice.h"

#include <algorithm>
#include <array>
#include <string>

#include "numerics/real.h"
#include "ops/fp32.h"
#include "ops/losses/loss_rows.h"
#include "ops/losses/row_softmax.h"
#include "ops/ops.h"

namespace mantissa::ops {
namespace {

constexpr double kLeastSmooth = 0x1p-20, kMostSmooth = 65536, kMostCrossEntropy = 100;

constexpr AttributeSpec kDiceSchema[] = {
    real<&DiceAttributes::smooth>("smooth", 1, kLeastSmooth, kMostSmooth),
    real<&DiceAttributes::cross_entropy>("cross_entropy", 0, 0, kMostCrossEntropy)};

constexpr Element kDiceElements[] = {Element::kMantissa, Element::kIndex, Element::kNumber};

Result<std::vector<ValueType>> infer_dice(const Attributes&, std::span<const Shape> inputs) {
  const bool has_places =
      inputs.size() >= 2 && inputs[0].rank >= 2 && inputs[1] == rows_shape(inputs[0]);
  if (!has_places || inputs.size() > 3 || (inputs.size() == 3 && inputs[2] != inputs[1])) {
    return invalid_input(
        "wants logits [..., places, classes], a label for each place, and perhaps a weight for "
        "each; a loss for one class of an example is softmax_cross_entropy");
  }
  const int64_t classes = inputs[0].last(), places = inputs[0].count() / classes;
  if (classes < 2 || classes > kernels::kMaximumOutputs || places > kMostPlaces) {
    return invalid_input("wants 2 to " + std::to_string(kernels::kMaximumOutputs) +
                         " classes and at most " + std::to_string(kMostPlaces) + " places");
  }
  return std::vector<ValueType>{{Shape{}, Element::kReal}};
}

// What an example's gradient needs of each class, in Q30: of a probability, and how much less it is
// where the class is the label. At most 2^14.
struct DiceSlopes {
  int64_t all, label;
};
constexpr int64_t kMostDiceSlope = int64_t{1} << 44;

DiceSlopes* dice_slopes_of(const OpContext& c, int64_t example) {
  return reinterpret_cast<DiceSlopes*>(left_memory(c)) + example * c.inputs[0].shape.last();
}

OpMemory dice_memory(const OpShapes& s, const PlanningContext&) {
  const int64_t bytes = s.inputs[0][0] * s.inputs[0].last() * int64_t{sizeof(DiceSlopes)};
  return {.saved_bytes = bytes, .forward = {.workspace_bytes = bytes}};
}

// The rows of an example.
class DicePlaces {
 public:
  DicePlaces(const OpContext& c, int64_t row)
      : c_(c),
        attributes_(c.attributes<DiceAttributes>()),
        logits_(c.inputs[0].as<int32_t>()),
        labels_(c.inputs[1].as<int32_t>()),
        classes_(c.inputs[0].shape.last()),
        places_(loss_rows(c) / c.inputs[0].shape[0]),
        exponent_(c.inputs[0].row_exponent(row)) {}

  kernels::RowWeights row_weights() const { return {row_weights_at(c_, 2), labels_}; }

  // Adds the losses of an example's places, and leaves its slopes.
  void add_example(int64_t example, LossTotals& totals) const {
    const kernels::RowWeights weights = row_weights();
    DiceSlopes* const sums = dice_slopes_of(c_, example);  // first: of p and t, and of p * t
    std::fill_n(sums, classes_, DiceSlopes{0, 0});
    int64_t counted = 0, cross_entropy = 0;
    for (int64_t row = example * places_; row < (example + 1) * places_; ++row) {
      const int64_t factor = weights.factor(row);
      if (factor == 0) continue;
      const int32_t* const logits = logits_ + row * classes_;
      const RowSoftmax soft(logits, classes_, c_.inputs[0].row_exponent(row));
      for (int64_t k = 0; k < classes_; ++k) {
        const int64_t p = shift_right_rne(soft.probability_q30(k), 30 - kSumBits);
        const int64_t one = k == labels_[row] ? int64_t{1} << kSumBits : 0;
        sums[k].all += factor * (p + one);
        if (one != 0) sums[k].label += factor * p;
      }
      counted += factor;
      cross_entropy =
          std::min(cross_entropy + weights.weighted(soft.lost_q24(labels_[row]), row), kMostLost);
      totals.correct += std::max_element(logits, logits + classes_) - logits == labels_[row];
    }
    totals.loss_q24 += dice(sums, counted, weights.bits()) +
                       std::min(ref_times_rne(cross_entropy, attributes_.cross_entropy_q16, 16),
                                kMostLost);
  }

  void prepare(int64_t row) {
    soft_ = {logits_ + row * classes_, classes_, exponent_};
    slopes_ = dice_slopes_of(c_, row / places_);
    mean_ = 0;
    for (int64_t k = 0; k < classes_; ++k) {
      mean_ += ref_times_rne(slope(row, k), soft_.probability_q30(k), 30);
    }
  }

  int64_t gradient(int64_t row, int64_t k) const {
    const int64_t p = soft_.probability_q30(k);
    const int64_t missed = p - (k == labels_[row] ? int64_t{1} << 30 : 0);
    return ref_times_rne(slope(row, k) - mean_, p, 30) +
           ref_times_rne(missed, attributes_.cross_entropy_q16, 16);
  }

 private:
  static constexpr int kSumBits = 24;
  static constexpr int64_t kLog2EQ52 = 6497320848556798;
  static constexpr int64_t kMostLost = int64_t{1} << 50;

  // The loss of all of an example's places, as -log2 of probabilities has it: in Q24 times log2 e.
  // Sums become slopes.
  int64_t dice(DiceSlopes* sums, int64_t counted, int weight_bits) const {
    const int64_t smooth = attributes_.smooth_q24 << weight_bits;
    const Real classes(classes_), places(counted);
    Real missed(classes_);
    for (int64_t k = 0; k < classes_; ++k) {
      const Real both(2 * sums[k].label + smooth), all(sums[k].all + smooth);
      const Real quotient = both / all, share = ldexp(places, kSumBits) / (all * classes);
      missed = missed - quotient;
      sums[k] = {to_fixed_point(share * quotient, 30, kMostDiceSlope),
                 to_fixed_point(ldexp(share, 1), 30, kMostDiceSlope)};
    }
    const Real lost = missed / classes * places * ldexp(Real(kLog2EQ52), -52);
    return to_fixed_point(lost, 24 - weight_bits, kMostLost);
  }

  int64_t slope(int64_t row, int64_t k) const {
    return slopes_[k].all - (k == labels_[row] ? slopes_[k].label : 0);
  }

  const OpContext& c_;
  const DiceAttributes& attributes_;
  const int32_t *logits_, *labels_;
  int64_t classes_, places_;
  int exponent_;
  RowSoftmax soft_;
  const DiceSlopes* slopes_ = nullptr;
  int64_t mean_ = 0;
};

void dice_forward(const OpContext& c) {
  std::array<LossTotals, kernels::kMaximumParts> partial = {};
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, c.inputs[0].shape[0], 1, [&](int64_t begin, int64_t end, int64_t part) {
        const DicePlaces places(c, 0);
        for (int64_t n = begin; n < end; ++n) places.add_example(n, partial[part]);
      });
  for (int64_t part = 0; part < parts; ++part) *c.step.loss += partial[part];
  count_rows(DicePlaces(c, 0).row_weights(), loss_rows(c), *c.step.loss);
}

void dice_backward(const OpContext& c) {
  loss_backward<ByNumbers<DicePlaces>, kLossGradientExponent>(c);
}

const char* dice_kernel(const OpContext&) { return "reference"; }

}  // namespace

const Op kDiceLoss = {.name = "dice_loss",
                      .attributes = schema<DiceAttributes, derive_dice>(kDiceSchema),
                      .infer_outputs = infer_dice,
                      .input_elements = kDiceElements,
                      .integer = {.memory = dice_memory,
                                  .forward = {.run = dice_forward},
                                  .grad_input = {.run = dice_backward},
                                  .kernel = dice_kernel},
                      .emit_gradient = emit_saved_loss_gradient,
                      .loss_unit = nats_from_q24(1),
                      .fp32 = &fp32::kDiceLoss};

}  // namespace mantissa::ops
