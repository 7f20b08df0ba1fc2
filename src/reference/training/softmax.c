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

static Row row_of(const RefSoftmaxCrossEntropy* args, int64_t i) {
  const int32_t* logits = args->logits + i * args->classes;
  const int64_t guess = ref_guess(logits, args->classes);
  Row row = {logits, guess, logits[guess], 0, args->exponent};
  for (int64_t c = 0; c < args->classes; ++c) row.sum += power(&row, c);
  return row;
}

// power / sum in Q30, to nearest: a power is at most 2^30, and the sum below 2^46.
static int64_t probability_q30(const Row* row, int64_t c) {
  return ((power(row, c) << 30) + row->sum / 2) / row->sum;
}

// The targets of classes other than the label.
static int64_t other_target(const RefSoftmaxCrossEntropy* args) {
  return args->smoothing == 0 ? 0 : ref_divide_rne(args->smoothing << 14, args->classes);
}

// A row's loss without its weight. The surplus of the other classes over the label, in Q16, is a
// sum of 2^16 terms below 2^41; targets of all classes add up to at most 2^30.
static int64_t lost_of(const RefSoftmaxCrossEntropy* args, const Row* row, int64_t target,
                       int32_t label) {
  const int64_t log2_sum = ref_log2_q24((uint64_t)row->sum) - ((int64_t)30 << 24);
  const int64_t of_label = log2_q16(row, label);
  const int64_t lost = log2_sum - of_label * 256;
  if (target == 0) return lost;
  int64_t surplus = 0;
  for (int64_t c = 0; c < args->classes; ++c) surplus += log2_q16(row, c) - of_label;
  return lost - ref_times_rne(surplus, target, 22);
}

RefLossSums ref_softmax_loss(const RefSoftmaxCrossEntropy* args, int64_t begin_row,
                             int64_t end_row) {
  const RefRowWeights weights = {args->weights, args->labels};
  const int64_t target = other_target(args);
  RefLossSums sums = {0, 0};
  for (int64_t i = begin_row; i < end_row; ++i) {
    if (ref_row_factor(&weights, i) == 0) continue;
    const Row row = row_of(args, i);
    const int32_t label = args->labels[i];
    sums.loss_q24 += ref_weighted_loss(&weights, lost_of(args, &row, target, label), i);
    sums.correct += row.guess == label;
  }
  return sums;
}

REF_LOOP RefStatistics gradient_of(int bytes, const RefSoftmaxCrossEntropy* args, int shift,
                                   RefSpan grad, int64_t begin_row, int64_t end_row) {
  const RefRowWeights weights = {args->weights, args->labels};
  const int64_t limit = ref_mantissa_limit(grad.bits), other = other_target(args);
  const int64_t of_label = ((int64_t)1 << 30) - (args->classes - 1) * other;
  RefStatistics found = {0, 0};
  for (int64_t i = begin_row; i < end_row; ++i) {
    const Row row = row_of(args, i);
    const int64_t label = args->labels[i], factor = ref_row_factor(&weights, i);
    for (int64_t c = 0; c < args->classes; ++c) {
      const int64_t wide = (probability_q30(&row, c) - (c == label ? of_label : other)) * factor;
      const int64_t rounded = ref_shift_right_rne(wide, shift > 62 ? 62 : shift);
      const int64_t narrow = ref_saturate(rounded, limit);
      ref_include(&found, wide, rounded, narrow);
      ref_count_wide(args->counts, wide);
      ref_store(grad.data, bytes, i * args->classes + c, narrow);
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
    const Row row = row_of(args, i);
    for (int64_t c = 0; c < args->classes; ++c) {
      probabilities[i * args->classes + c] = (int32_t)probability_q30(&row, c);
    }
  }
}
