#include "reference/elements/elements.h"
#include "reference/training/losses.h"

// A mantissa in Q24, clipped at 2^36.
static int64_t to_q24(int64_t mantissa, int exponent) {
  return ref_saturate(ref_rescale_rne(mantissa, -(exponent + 24)), (int64_t)1 << 36);
}

// |error| <= 2^37.
static int64_t error_q24(const RefSquaredError* args, int64_t row, int64_t c) {
  const int64_t at = row * args->classes + c;
  const int64_t of_label = args->targets == NULL && c == args->labels[row] ? (int64_t)1 << 24 : 0;
  const int64_t target =
      args->targets != NULL ? to_q24(args->targets[at], args->target_exponent) : of_label;
  return to_q24(args->logits[at], args->exponent) - target;
}

static RefRowWeights weights_of(const RefSquaredError* args) {
  const RefRowWeights weights = {args->weights, args->targets == NULL ? args->labels : NULL};
  return weights;
}

RefLossSums ref_squared_error_loss(const RefSquaredError* args, int64_t begin_row,
                                   int64_t end_row) {
  const RefRowWeights weights = weights_of(args);
  RefLossSums sums = {0, 0};
  for (int64_t row = begin_row; row < end_row; ++row) {
    if (ref_row_factor(&weights, row) == 0) continue;
    RefWide squares = {0, 0};  // Q48, at most 2^86
    for (int64_t c = 0; c < args->classes; ++c) {
      squares = ref_add_square(squares, error_q24(args, row, c));
    }
    const int64_t mean = ref_divide_wide_rne(squares, (uint64_t)args->classes);
    sums.loss_q24 += ref_weighted_loss(&weights, mean, row);
    if (args->targets != NULL) continue;
    sums.correct +=
        ref_guess(args->logits + row * args->classes, args->classes) == args->labels[row];
  }
  return sums;
}

REF_LOOP RefStatistics gradient_of(int bytes, const RefSquaredError* args, int shift, RefSpan grad,
                                   int64_t begin_row, int64_t end_row) {
  const RefRowWeights weights = weights_of(args);
  RefStatistics found = {0, 0};
  for (int64_t row = begin_row; row < end_row; ++row) {
    const int64_t factor = ref_row_factor(&weights, row);
    for (int64_t c = 0; c < args->classes; ++c) {
      // 2 d in Q30, at most 2^44.
      const int64_t twice = error_q24(args, row, c) * 128;
      const int64_t wide = ref_divide_rne(twice, args->classes) * factor;
      ref_store_gradient(grad, bytes, row * args->classes + c, wide, shift, &found);
      ref_count_wide(args->counts, wide);
    }
  }
  return found;
}

RefStatistics ref_squared_error_gradient(const RefSquaredError* args, int shift, RefSpan grad,
                                         int64_t begin_row, int64_t end_row) {
  REF_WITH_BYTES(grad.bits, bytes,
                 return gradient_of(bytes, args, shift, grad, begin_row, end_row));
}
