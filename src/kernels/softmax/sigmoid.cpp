// Sigmoids as softmaxes of pairs: the first logit is 0, the second the output's.
#include "kernels/softmax/sigmoid.h"

#include <algorithm>
#include <array>

#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

constexpr int64_t kBlock = 64;                   // outputs at a time
constexpr int64_t kMostLost = int64_t{1} << 48;  // as much as one softmax can lose
using PairsOfBlock = std::array<int32_t, 2 * kBlock>;

// Pairs for the outputs [first, first + count) of all rows.
SoftmaxCrossEntropy pairs_of(const SigmoidCrossEntropy& args, int64_t first, int64_t count,
                             PairsOfBlock& pairs) {
  for (int64_t i = 0; i < count; ++i) {
    pairs[2 * i] = 0;
    pairs[2 * i + 1] = args.logits[first + i];
  }
  return {.logits = pairs.data(), .exponent = args.exponent, .classes = 2};
}

// Calls use(first, count, probabilities of 1) for the outputs of all rows, block by block.
template <typename Use>
void for_probabilities(const SoftmaxKernels& softmax, const SigmoidCrossEntropy& args,
                       int64_t begin_row, int64_t end_row, const Use& use) {
  const int64_t end = end_row * args.outputs();
  PairsOfBlock pairs, both;
  std::array<int32_t, kBlock> of_one;
  for (int64_t first = begin_row * args.outputs(); first < end; first += kBlock) {
    const int64_t count = std::min(kBlock, end - first);
    softmax.probabilities(pairs_of(args, first, count, pairs), both.data(), 0, count);
    for (int64_t i = 0; i < count; ++i) of_one[i] = both[2 * i + 1];
    use(first, count, of_one.data());
  }
}

// The loss of a row without its weight, and whether it is correct.
LossSums row_loss(const SoftmaxKernels& softmax, const SigmoidCrossEntropy& args, int64_t row) {
  PairsOfBlock pairs;
  std::array<int32_t, kBlock> targets;
  LossSums found;
  int64_t known = 0;
  for (int64_t k = 0; k < args.outputs(); k += kBlock) {
    const int64_t count = std::min(kBlock, args.outputs() - k);
    for (int64_t i = 0; i < count; ++i) {
      targets[i] = args.targets.at(row, k + i);
      known += targets[i] >= 0;
    }
    SoftmaxCrossEntropy each = pairs_of(args, row * args.outputs() + k, count, pairs);
    each.labels = targets.data();
    const LossSums block = softmax.loss(each, 0, count);
    found.loss_q24 = std::min(found.loss_q24 + block.loss_q24, kMostLost);
    found.correct += block.correct;
  }
  found.correct = known > 0 && found.correct == known ? 1 : 0;
  return found;
}

}  // namespace

LossSums sigmoid_loss(const SoftmaxKernels& softmax, const SigmoidCrossEntropy& args,
                      int64_t begin_row, int64_t end_row) noexcept {
  LossSums sums;
  for (int64_t row = begin_row; row < end_row; ++row) {
    if (args.row_weights().factor(row) == 0) continue;
    const LossSums found = row_loss(softmax, args, row);
    sums.loss_q24 += args.row_weights().weighted(found.loss_q24, row);
    sums.correct += found.correct;
  }
  return sums;
}

WideStatistics sigmoid_gradient(const SoftmaxKernels& softmax, const SigmoidCrossEntropy& args,
                                int shift, MantissaSpan grad, int64_t begin_row,
                                int64_t end_row) noexcept {
  return with_wide_gradient_type(grad.bits, [&](auto type) {
    WideStatistics statistics;
    auto* const out = grad.as<decltype(type)>();
    const auto write = [&](int64_t first, int64_t count, const int32_t* of_one) {
      for (int64_t i = first; i < first + count; ++i) {
        const int64_t row = i / args.outputs();
        const int64_t target = args.targets.at(row, i % args.outputs());
        const int64_t factor = target < 0 ? 0 : args.row_weights().factor(row);
        const int64_t wide = (of_one[i - first] - (target << 30)) * factor;
        const int64_t rounded = shift_right_rne(wide, std::min(shift, 62));
        const int64_t narrow = saturate(rounded, mantissa_limit(grad.bits));
        statistics += {magnitude(wide), narrow != rounded};
        if (args.counts != nullptr) args.counts->add(magnitude(wide));
        out[i] = static_cast<decltype(type)>(narrow);
      }
    };
    for_probabilities(softmax, args, begin_row, end_row, write);
    return statistics;
  });
}

void sigmoid_probabilities(const SoftmaxKernels& softmax, const SigmoidCrossEntropy& args,
                           int32_t* probabilities, int64_t begin_row, int64_t end_row) noexcept {
  for_probabilities(softmax, args, begin_row, end_row,
                    [&](int64_t first, int64_t count, const int32_t* of_one) {
                      std::copy_n(of_one, count, probabilities + first);
                    });
}

}  // namespace mantissa::kernels
