// The normative softmax.
#include <algorithm>

#include "kernels/softmax/softmax.h"
#include "kernels/softmax/targets.h"
#include "numerics/exponential.h"
#include "numerics/point_functions.h"

namespace mantissa::kernels {
namespace {

int64_t largest_logit(const SoftmaxCrossEntropy& args, int64_t row) {
  const int32_t* logits = args.logits + row * args.classes;
  return *std::max_element(logits, logits + args.classes);
}

int64_t log2_q16(const SoftmaxCrossEntropy& args, int64_t row, int64_t label, int64_t largest) {
  return natural_to_log2_q16(args.logits[row * args.classes + label] - largest, args.exponent);
}

// The powers exp(logit - largest) of a row in Q30. They are computed when they are needed: a row
// may have more classes than fit on the stack.
struct Powers {
  const SoftmaxCrossEntropy& args;
  int64_t row, largest;
  int64_t sum = 0;

  Powers(const SoftmaxCrossEntropy& args_, int64_t row_)
      : args(args_), row(row_), largest(largest_logit(args_, row_)) {
    for (int64_t c = 0; c < args.classes; ++c) sum += power(c);
  }
  int64_t power(int64_t c) const { return exp2_q30(log2_q16(args, row, c, largest)); }
  // power(c) / sum in Q30, to nearest.
  int64_t probability_q30(int64_t c) const { return ((power(c) << 30) + sum / 2) / sum; }
};

LossSums loss(const SoftmaxCrossEntropy& args, int64_t begin_row, int64_t end_row) noexcept {
  LossSums sums;
  const SoftmaxTargets targets(args);
  for (int64_t row = begin_row; row < end_row; ++row) {
    if (args.row_weights().factor(row) == 0) continue;
    const Powers powers(args, row);
    const int64_t largest = powers.largest;
    const int64_t log2_sum = log2_q24(static_cast<uint64_t>(powers.sum)) - (int64_t{30} << 24);
    const int64_t label = log2_q16(args, row, args.labels[row], largest);
    int64_t lost = log2_sum - label * 256;
    if (targets.other != 0) {
      __int128 shared = 0;  // Q46: the surplus of the other classes over the label
      for (int64_t c = 0; c < args.classes; ++c) {
        shared += __int128{targets.other} * (log2_q16(args, row, c, largest) - label);
      }
      lost -= divide_rne(shared, int64_t{1} << 22);
    }
    sums.loss_q24 += args.row_weights().weighted(lost, row);
    const int32_t* logits = args.logits + row * args.classes;
    const int64_t guess = std::max_element(logits, logits + args.classes) - logits;
    sums.correct += guess == args.labels[row];
  }
  return sums;
}

template <typename T>
WideStatistics gradient_of(const SoftmaxCrossEntropy& args, int shift, MantissaSpan grad,
                           int64_t begin_row, int64_t end_row) noexcept {
  const int64_t limit = mantissa_limit(grad.bits);
  const SoftmaxTargets targets(args);
  WideStatistics statistics;
  for (int64_t row = begin_row; row < end_row; ++row) {
    const Powers powers(args, row);
    const int64_t label = args.labels[row];
    const int64_t factor = args.row_weights().factor(row);
    for (int64_t c = 0; c < args.classes; ++c) {
      const int64_t target = c == label ? targets.label : targets.other;
      const int64_t wide = (powers.probability_q30(c) - target) * factor;
      const int64_t rounded = shift_right_rne(wide, std::min(shift, 62));
      const int64_t narrow = saturate(rounded, limit);
      statistics.maximum = std::max(statistics.maximum, magnitude(wide));
      statistics.saturated += narrow != rounded;
      if (args.counts != nullptr) args.counts->add(magnitude(wide));
      grad.as<T>()[row * args.classes + c] = static_cast<T>(narrow);
    }
  }
  return statistics;
}

WideStatistics gradient(const SoftmaxCrossEntropy& args, int shift, MantissaSpan grad,
                        int64_t begin_row, int64_t end_row) noexcept {
  return with_wide_gradient_type(grad.bits, [&](auto type) {
    return gradient_of<decltype(type)>(args, shift, grad, begin_row, end_row);
  });
}

void probabilities(const SoftmaxCrossEntropy& args, int32_t* out, int64_t begin_row,
                   int64_t end_row) noexcept {
  for (int64_t row = begin_row; row < end_row; ++row) {
    const Powers powers(args, row);
    for (int64_t c = 0; c < args.classes; ++c) {
      out[row * args.classes + c] = static_cast<int32_t>(powers.probability_q30(c));
    }
  }
}

}  // namespace

const SoftmaxKernels kSoftmaxReference = {"softmax_reference", kNeedsNothing, loss, gradient,
                                          probabilities};

}  // namespace mantissa::kernels
