#include "device/operators/losses.h"

enum { kGradientExponent = -30, kWeightBits = 10 };

static int32_t rows_of(const DevTensor* logits) { return logits->count / logits->channels; }

static void add(DevStep* step, RefLossSums sums, const RefRowWeights* weights, int32_t rows) {
  step->loss += sums.loss_q24;
  step->correct += sums.correct;
  for (int32_t row = 0; row < rows; ++row) {
    const int64_t factor = ref_row_factor(weights, row);
    step->counted += factor > 0;
    step->weight += weights->weights == NULL ? factor << kWeightBits : factor;
  }
}

static RefSoftmaxCrossEntropy softmax_of(const DevSoftmax* s, RefWideCounts* counts) {
  const RefSoftmaxCrossEntropy args = {.logits = (const int32_t*)s->logits->data,
                                       .labels = s->labels,
                                       .exponent = *s->logits->exponent,
                                       .classes = s->logits->channels,
                                       .smoothing = s->smoothing,
                                       .weights = s->weights,
                                       .counts = counts};
  return args;
}

void dev_softmax_loss(DevStep* step, const DevSoftmax* s) {
  const RefSoftmaxCrossEntropy args = softmax_of(s, NULL);
  const RefRowWeights weights = {s->weights, s->labels};
  const int32_t rows = rows_of(s->logits);
  add(step, ref_softmax_loss(&args, 0, rows), &weights, rows);
}

typedef struct SoftmaxPass {
  const DevSoftmax* softmax;
  const DevTensor* grad;
} SoftmaxPass;

static RefStatistics pass_softmax(const void* work, int shift, RefWideCounts* counts) {
  const SoftmaxPass* pass = (const SoftmaxPass*)work;
  const RefSoftmaxCrossEntropy args = softmax_of(pass->softmax, counts);
  const RefSpan grad = {pass->grad->data, pass->grad->bits};
  return ref_softmax_gradient(&args, shift, grad, 0, rows_of(pass->grad));
}

void dev_softmax_gradient(DevStep* step, const DevSoftmax* s, const DevTensor* grad) {
  const SoftmaxPass pass = {s, grad};
  const int exponent = kGradientExponent - (s->weights == NULL ? 0 : kWeightBits);
  const DevNarrowing narrowing = {pass_softmax, &pass, grad, exponent, 62};
  dev_narrow_gradient(step, &narrowing);
}

static RefSquaredError squares_of(const DevSquares* s, RefWideCounts* counts) {
  const RefSquaredError args = {.logits = (const int32_t*)s->logits->data,
                                .labels = s->labels,
                                .exponent = *s->logits->exponent,
                                .classes = s->logits->channels,
                                .targets = s->targets,
                                .target_exponent = s->target_exponent,
                                .weights = s->weights,
                                .counts = counts};
  return args;
}

void dev_squares_loss(DevStep* step, const DevSquares* s) {
  const RefSquaredError args = squares_of(s, NULL);
  const RefRowWeights weights = {s->weights, s->targets == NULL ? s->labels : NULL};
  const int32_t rows = rows_of(s->logits);
  add(step, ref_squared_error_loss(&args, 0, rows), &weights, rows);
}

typedef struct SquaresPass {
  const DevSquares* squares;
  const DevTensor* grad;
} SquaresPass;

static RefStatistics pass_squares(const void* work, int shift, RefWideCounts* counts) {
  const SquaresPass* pass = (const SquaresPass*)work;
  const RefSquaredError args = squares_of(pass->squares, counts);
  const RefSpan grad = {pass->grad->data, pass->grad->bits};
  return ref_squared_error_gradient(&args, shift, grad, 0, rows_of(pass->grad));
}

void dev_squares_gradient(DevStep* step, const DevSquares* s, const DevTensor* grad) {
  const SquaresPass pass = {s, grad};
  const int exponent = kGradientExponent - (s->weights == NULL ? 0 : kWeightBits);
  const DevNarrowing narrowing = {pass_squares, &pass, grad, exponent, 62};
  dev_narrow_gradient(step, &narrowing);
}
