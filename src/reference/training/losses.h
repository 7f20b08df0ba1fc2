// Cross-entropy by softmax or sigmoids, and the mean squared error, in integers on wide results.
// Source: METHODS section 0.6.
//
// Logits are [rows, classes] mantissas with one exponent; labels are < classes. Rows with a label
// below 0 count nowhere, others as much as their weights say: whole numbers of 2^-10 from 0 to 31.
#pragma once

#include "reference/numerics/wide_counts.h"

// Sums over examples that a loss finds.
typedef struct RefLossSums {
  int64_t loss_q24 REF_CXX(= 0);  // of the examples' losses, in Q24
  int64_t correct REF_CXX(= 0);   // the label has the largest logit (the first of equals)
} RefLossSums;

// Weights of rows in the sums that losses and their gradients are.
typedef struct RefRowWeights {
  const int16_t* weights REF_CXX(= nullptr);  // [rows]; null: each counts 1
  const int32_t* labels REF_CXX(= nullptr);   // [rows]; null: all count
#ifdef __cplusplus
  // Bits after the point of factors.
  constexpr int bits() const { return weights == nullptr ? 0 : 10; }
  constexpr int64_t factor(int64_t row) const;
  constexpr int64_t weighted(int64_t loss, int64_t row) const;
#endif
} RefRowWeights;

// By which the gradient of a row is multiplied.
REF_INLINE int64_t ref_row_factor(const RefRowWeights* weights, int64_t row) {
  if (weights->labels != NULL && weights->labels[row] < 0) return 0;
  return weights->weights == NULL ? 1 : weights->weights[row];
}

// A row's loss, below 2^52, times its weight, to nearest even.
REF_INLINE int64_t ref_weighted_loss(const RefRowWeights* weights, int64_t loss, int64_t row) {
  const int64_t factor = ref_row_factor(weights, row);
  return weights->weights == NULL ? loss * factor : ref_times_rne(loss, factor, 10);
}

#ifdef __cplusplus
constexpr int64_t RefRowWeights::factor(int64_t row) const { return ref_row_factor(this, row); }
constexpr int64_t RefRowWeights::weighted(int64_t loss, int64_t row) const {
  return ref_weighted_loss(this, loss, row);
}
#endif

// The class of the largest logit, the first of equals.
REF_INLINE int64_t ref_guess(const int32_t* logits, int64_t classes) {
  int64_t guess = 0;
  for (int64_t c = 1; c < classes; ++c) guess = logits[c] > logits[guess] ? c : guess;
  return guess;
}

// Up to 2^18 classes: sums of powers stay within 2^48. Targets in Q30: with label smoothing
// epsilon, epsilon / classes for other classes, to nearest even, and for the label the rest up to
// one; without it 0 and 1.
typedef struct RefSoftmaxCrossEntropy {
  const int32_t* logits REF_CXX(= nullptr);
  const int32_t* labels REF_CXX(= nullptr);
  int exponent REF_CXX(= 0);
  int64_t classes REF_CXX(= 1);
  int64_t smoothing REF_CXX(= 0);             // epsilon times 2^16, below 2^16
  const int16_t* weights REF_CXX(= nullptr);  // [rows] in 2^-10; null: each row counts 1
  RefWideCounts* counts REF_CXX(= nullptr);   // of the wide gradient, if it is counted
#ifdef __cplusplus
  RefRowWeights row_weights() const { return {weights, labels}; }
#endif
} RefSoftmaxCrossEntropy;

// The target of each logit that does not depend on the others: 0, 1, or below 0 if it is not known.
typedef struct RefSigmoidTargets {
  const int32_t* labels REF_CXX(= nullptr);
  int64_t outputs REF_CXX(= 1);
  // Labels are [rows, outputs], the targets themselves; else [rows], the only output that is 1, or
  // of one output its target.
  bool by_output REF_CXX(= false);
#ifdef __cplusplus
  constexpr int32_t at(int64_t row, int64_t output) const;
#endif
} RefSigmoidTargets;

REF_INLINE int32_t ref_sigmoid_target(const RefSigmoidTargets* targets, int64_t row,
                                      int64_t output) {
  if (targets->by_output) return targets->labels[row * targets->outputs + output];
  const int32_t label = targets->labels[row];
  if (targets->outputs == 1 || label < 0) return label;
  return label == output ? 1 : 0;
}

#ifdef __cplusplus
constexpr int32_t RefSigmoidTargets::at(int64_t row, int64_t output) const {
  return ref_sigmoid_target(this, row, output);
}
#endif

// Logits are [rows, outputs]. A logit whose target is not known counts nowhere.
typedef struct RefSigmoidCrossEntropy {
  const int32_t* logits REF_CXX(= nullptr);
  RefSigmoidTargets targets;
  int exponent REF_CXX(= 0);
  const int16_t* weights REF_CXX(= nullptr);  // [rows] in 2^-10; null: each row counts 1
  RefWideCounts* counts REF_CXX(= nullptr);   // of the wide gradient, if it is counted
#ifdef __cplusplus
  int64_t outputs() const { return targets.outputs; }
  RefRowWeights row_weights() const {
    return {weights, targets.by_output ? nullptr : targets.labels};
  }
#endif
} RefSigmoidCrossEntropy;

// Up to 4096 classes. A logit z is taken in Q24, to nearest even and clipped at +-2^12. Its error
// is d = z - [class = label]. If targets t are given, [rows, classes] with one exponent and
// converted as logits are, it is d = z - t.
typedef struct RefSquaredError {
  const int32_t* logits REF_CXX(= nullptr);
  const int32_t* labels REF_CXX(= nullptr);
  int exponent REF_CXX(= 0);
  int64_t classes REF_CXX(= 1);
  const int16_t* targets REF_CXX(= nullptr);  // in place of labels
  int target_exponent REF_CXX(= 0);
  const int16_t* weights REF_CXX(= nullptr);  // [rows] in 2^-10; null: each row counts 1
  RefWideCounts* counts REF_CXX(= nullptr);   // of the wide gradient, if it is counted
#ifdef __cplusplus
  RefRowWeights row_weights() const { return {weights, targets == nullptr ? labels : nullptr}; }
#endif
} RefSquaredError;

REF_BEGIN

// loss_q24: -sum of target * log2(probability) over the classes, in Q24, times the weight.
RefLossSums ref_softmax_loss(const RefSoftmaxCrossEntropy*, int64_t begin_row,
                             int64_t end_row) REF_NOEXCEPT;
// grad = saturate(rne((probability - target) in Q30 * weight >> shift), +-(2^(bits-1) - 1)): the
// gradient of the *sum* of the examples' losses; wide exponent -30, or -40 if there are weights.
// Every width is rounded from the same wide numbers, once; shift >= 0.
RefStatistics ref_softmax_gradient(const RefSoftmaxCrossEntropy*, int shift, RefSpan grad,
                                   int64_t begin_row, int64_t end_row) REF_NOEXCEPT;
// probabilities[row, class] in Q30.
void ref_softmax_probabilities(const RefSoftmaxCrossEntropy*, int32_t* probabilities,
                               int64_t begin_row, int64_t end_row) REF_NOEXCEPT;

// The sigmoid of a logit z is the softmax of 0 and z. loss_q24: of each row the sum of
// -log2(probability of the target) over its outputs, in Q24 and at most 2^48, times the weight. A
// row is correct if any target is known, and each known target is 1 for a logit above 0, else 0.
RefLossSums ref_sigmoid_loss(const RefSigmoidCrossEntropy*, int64_t begin_row,
                             int64_t end_row) REF_NOEXCEPT;
// As ref_softmax_gradient, of each output's probability of 1.
RefStatistics ref_sigmoid_gradient(const RefSigmoidCrossEntropy*, int shift, RefSpan grad,
                                   int64_t begin_row, int64_t end_row) REF_NOEXCEPT;
// probabilities[row, output] of 1, in Q30.
void ref_sigmoid_probabilities(const RefSigmoidCrossEntropy*, int32_t* probabilities,
                               int64_t begin_row, int64_t end_row) REF_NOEXCEPT;

// loss_q24: of each row the mean of d^2 over the classes, in Q24 to nearest even, times the weight.
// Rows whose largest logit is the label's are counted as correct; with targets none.
RefLossSums ref_squared_error_loss(const RefSquaredError*, int64_t begin_row,
                                   int64_t end_row) REF_NOEXCEPT;
// grad = saturate(rne(wide >> shift), +-(2^(bits-1) - 1)) with wide = 2 d / classes in Q30, to
// nearest even, times the weight: the gradient of the *sum* of the rows' losses; shift >= 0.
RefStatistics ref_squared_error_gradient(const RefSquaredError*, int shift, RefSpan grad,
                                         int64_t begin_row, int64_t end_row) REF_NOEXCEPT;

REF_END
