#include "reference/elements/elements.h"
#include "reference/numerics/exponential.h"
#include "reference/training/losses.h"

// A row: its logits, the class of the largest, that one, and the sum of the powers exp(logit -
// largest) in Q30. Powers are computed when they are needed: a row may have more classes than fit
// on the stack.
typedef struct Row {
  const int32_t* logits;
  int64_t guess, largest, sum;
  int exponent;
} Row;

static int64_t log2_q16(const Row* row, int64_t c) {
  return ref_natural_to_log2_q16(row->logits[c] - row->largest, row->exponent);
}

static int64_t power(const Row* row, int64_t c) { return ref_exp2_q30(log2_q16(row, c)); }

static Row row_of(const int32_t* logits, int64_t classes, int exponent) {
  const int64_t guess = ref_guess(logits, classes);
  Row row = {logits, guess, logits[guess], 0, exponent};
  for (int64_t c = 0; c < classes; ++c) row.sum += power(&row, c);
  return row;
}

static Row row_at(const RefSoftmaxCrossEntropy* args, int64_t i) {
  return row_of(args->logits + i * args->classes, args->classes, args->exponent);
}

// The sigmoid of a logit z is the softmax of 0 and z.
static Row pair_of(const RefSigmoidCrossEntropy* args, int64_t i, int32_t* logits) {
  logits[0] = 0;
  logits[1] = args->logits[i];
  return row_of(logits, 2, args->exponent);
}

// power / sum in Q30, to nearest: a power is at most 2^30, and the sum at most 2^48.
static int64_t probability_q30(const Row* row, int64_t c) {
  return ((power(row, c) << 30) + row->sum / 2) / row->sum;
}

// The targets of classes other than the label.
static int64_t other_target(const RefSoftmaxCrossEntropy* args) {
  return args->smoothing == 0 ? 0 : ref_divide_rne(args->smoothing << 14, args->classes);
}

// A row's loss without its weight. The surplus of the other classes over the label, in Q16, is a
// sum of at most 2^18 terms below 2^41; targets of all classes add up to at most 2^30.
static int64_t lost_of(const Row* row, int64_t classes, int64_t target, int32_t label) {
  const int64_t log2_sum = ref_log2_q24((uint64_t)row->sum) - ((int64_t)30 << 24);
  const int64_t of_label = log2_q16(row, label);
  const int64_t lost = log2_sum - of_label * 256;
  if (target == 0) return lost;
  int64_t surplus = 0;
  for (int64_t c = 0; c < classes; ++c) surplus += log2_q16(row, c) - of_label;
  return lost - ref_times_rne(surplus, target, 22);
}

RefLossSums ref_softmax_loss(const RefSoftmaxCrossEntropy* args, int64_t begin_row,
                             int64_t end_row) {
  const RefRowWeights weights = {args->weights, args->labels};
  const int64_t target = other_target(args);
  RefLossSums sums = {0, 0};
  for (int64_t i = begin_row; i < end_row; ++i) {
    if (ref_row_factor(&weights, i) == 0) continue;
    const Row row = row_at(args, i);
    const int32_t label = args->labels[i];
    sums.loss_q24 += ref_weighted_loss(&weights, lost_of(&row, args->classes, target, label), i);
    sums.correct += row.guess == label;
  }
  return sums;
}

REF_LOOP RefStatistics gradient_of(int bytes, const RefSoftmaxCrossEntropy* args, int shift,
                                   RefSpan grad, int64_t begin_row, int64_t end_row) {
  const RefRowWeights weights = {args->weights, args->labels};
  const int64_t other = other_target(args);
  const int64_t of_label = ((int64_t)1 << 30) - (args->classes - 1) * other;
  RefStatistics found = {0, 0};
  for (int64_t i = begin_row; i < end_row; ++i) {
    const Row row = row_at(args, i);
    const int64_t label = args->labels[i], factor = ref_row_factor(&weights, i);
    for (int64_t c = 0; c < args->classes; ++c) {
      const int64_t wide = (probability_q30(&row, c) - (c == label ? of_label : other)) * factor;
      ref_store_gradient(grad, bytes, i * args->classes + c, wide, shift, &found);
      ref_count_wide(args->counts, wide);
    }
  }
  return found;
}

RefStatistics ref_softmax_gradient(const RefSoftmaxCrossEntropy* args, int shift, RefSpan grad,
                                   int64_t begin_row, int64_t end_row) {
  REF_WITH_BYTES(grad.bits, bytes,
                 return gradient_of(bytes, args, shift, grad, begin_row, end_row));
}

void ref_softmax_probabilities(const RefSoftmaxCrossEntropy* args, int32_t* probabilities,
                               int64_t begin_row, int64_t end_row) {
  for (int64_t i = begin_row; i < end_row; ++i) {
    const Row row = row_at(args, i);
    for (int64_t c = 0; c < args->classes; ++c) {
      probabilities[i * args->classes + c] = (int32_t)probability_q30(&row, c);
    }
  }
}

static RefRowWeights weights_of(const RefSigmoidCrossEntropy* args) {
  const RefSigmoidTargets* targets = &args->targets;
  const RefRowWeights weights = {args->weights, targets->by_output ? NULL : targets->labels};
  return weights;
}

RefLossSums ref_sigmoid_loss(const RefSigmoidCrossEntropy* args, int64_t begin_row,
                             int64_t end_row) {
  const RefRowWeights weights = weights_of(args);
  const int64_t outputs = args->targets.outputs, most_lost = (int64_t)1 << 48;
  RefLossSums sums = {0, 0};
  for (int64_t row = begin_row; row < end_row; ++row) {
    if (ref_row_factor(&weights, row) == 0) continue;
    int64_t lost = 0, known = 0, right = 0;
    for (int64_t k = 0; k < outputs; ++k) {
      const int32_t target = ref_sigmoid_target(&args->targets, row, k);
      if (target < 0) continue;
      int32_t logits[2];
      const Row pair = pair_of(args, row * outputs + k, logits);
      lost = ref_smaller(lost + lost_of(&pair, 2, 0, target), most_lost);
      right += pair.guess == target;
      ++known;
    }
    sums.loss_q24 += ref_weighted_loss(&weights, lost, row);
    sums.correct += known > 0 && right == known;
  }
  return sums;
}

REF_LOOP RefStatistics outputs_gradient(int bytes, const RefSigmoidCrossEntropy* args, int shift,
                                        RefSpan grad, int64_t begin_row, int64_t end_row) {
  const RefRowWeights weights = weights_of(args);
  const int64_t outputs = args->targets.outputs;
  RefStatistics found = {0, 0};
  for (int64_t i = begin_row * outputs; i < end_row * outputs; ++i) {
    const int64_t target = ref_sigmoid_target(&args->targets, i / outputs, i % outputs);
    const int64_t factor = target < 0 ? 0 : ref_row_factor(&weights, i / outputs);
    int32_t logits[2];
    const Row pair = pair_of(args, i, logits);
    const int64_t wide = (probability_q30(&pair, 1) - target * ((int64_t)1 << 30)) * factor;
    ref_store_gradient(grad, bytes, i, wide, shift, &found);
    ref_count_wide(args->counts, wide);
  }
  return found;
}

RefStatistics ref_sigmoid_gradient(const RefSigmoidCrossEntropy* args, int shift, RefSpan grad,
                                   int64_t begin_row, int64_t end_row) {
  REF_WITH_BYTES(grad.bits, bytes,
                 return outputs_gradient(bytes, args, shift, grad, begin_row, end_row));
}

void ref_sigmoid_probabilities(const RefSigmoidCrossEntropy* args, int32_t* probabilities,
                               int64_t begin_row, int64_t end_row) {
  const int64_t outputs = args->targets.outputs;
  for (int64_t i = begin_row * outputs; i < end_row * outputs; ++i) {
    int32_t logits[2];
    const Row pair = pair_of(args, i, logits);
    probabilities[i] = (int32_t)probability_q30(&pair, 1);
  }
}
