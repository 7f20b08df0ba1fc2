// The normative softmax.
#include <algorithm>
#include <array>

#include "kernels/softmax/softmax.h"
#include "kernels/softmax/targets.h"
#include "numerics/exponential.h"
#include "numerics/point_functions.h"

namespace mantissa::kernels {
namespace {

struct Powers {
  std::array<int64_t, kMaximumClasses> value;  // exp(logit - largest) in Q30
  int64_t sum = 0;
};

int64_t largest_logit(const SoftmaxCrossEntropy& args, int64_t row) {
  const int32_t* logits = args.logits + row * args.classes;
  return *std::max_element(logits, logits + args.classes);
}

int64_t log2_q16(const SoftmaxCrossEntropy& args, int64_t row, int64_t label, int64_t largest) {
  return natural_to_log2_q16(args.logits[row * args.classes + label] - largest, args.exponent);
}

void compute_powers(const SoftmaxCrossEntropy& args, int64_t row, Powers& powers) {
  const int64_t largest = largest_logit(args, row);
  powers.sum = 0;
  for (int64_t c = 0; c < args.classes; ++c) {
    powers.value[c] = exp2_q30(log2_q16(args, row, c, largest));
    powers.sum += powers.value[c];
  }
}

// powers.value[c] / sum in Q30, to nearest.
int64_t probability_q30(const Powers& powers, int64_t c) {
  return ((powers.value[c] << 30) + powers.sum / 2) / powers.sum;
}

LossSums loss(const SoftmaxCrossEntropy& args, int64_t begin_row, int64_t end_row) noexcept {
  LossSums sums;
  const SoftmaxTargets targets(args);
  Powers powers;
  for (int64_t row = begin_row; row < end_row; ++row) {
    if (args.row_weights().factor(row) == 0) continue;
    compute_powers(args, row, powers);
    const int64_t largest = largest_logit(args, row);
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
  Powers powers;
  for (int64_t row = begin_row; row < end_row; ++row) {
    compute_powers(args, row, powers);
    const int64_t label = args.labels[row];
    const int64_t factor = args.row_weights().factor(row);
    for (int64_t c = 0; c < args.classes; ++c) {
      const int64_t target = c == label ? targets.label : targets.other;
      const int64_t wide = (probability_q30(powers, c) - target) * factor;
      const int64_t rounded = shift_right_rne(wide, std::min(shift, 62));
      const int64_t narrow = saturate(rounded, limit);
      statistics.maximum = std::max(statistics.maximum, magnitude(wide));
      statistics.saturated += narrow != rounded;
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
  Powers powers;
  for (int64_t row = begin_row; row < end_row; ++row) {
    compute_powers(args, row, powers);
    for (int64_t c = 0; c < args.classes; ++c) {
      out[row * args.classes + c] = static_cast<int32_t>(probability_q30(powers, c));
    }
  }
}

}  // namespace

const SoftmaxKernels kSoftmaxReference = {"softmax_reference", kNeedsNothing, loss, gradient,
                                          probabilities};

}  // namespace mantissa::kernels
