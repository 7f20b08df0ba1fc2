// The normative mean squared error: a few operations for each of a step's logits.
#include <algorithm>

#include "kernels/squared_error/squared_error.h"
#include "numerics/point_functions.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

constexpr int64_t kOneQ24 = int64_t{1} << 24;
constexpr int64_t kLargestLogit = int64_t{1} << 36;  // 2^12 in Q24

int64_t to_q24(int64_t mantissa, int exponent) {
  return saturate(rescale_rne(mantissa, -(exponent + 24)), kLargestLogit);
}

int64_t error_q24(const SquaredError& args, int64_t row, int64_t c) {
  const int64_t at = row * args.classes + c;
  const int64_t target = args.targets != nullptr ? to_q24(args.targets[at], args.target_exponent)
                         : c == args.labels[row] ? kOneQ24
                                                 : 0;
  return to_q24(args.logits[at], args.exponent) - target;
}

LossSums loss(const SquaredError& args, int64_t begin_row, int64_t end_row) noexcept {
  LossSums sums;
  for (int64_t row = begin_row; row < end_row; ++row) {
    if (args.row_weights().factor(row) == 0) continue;
    __int128 squares = 0;  // Q48
    for (int64_t c = 0; c < args.classes; ++c) {
      const __int128 error = error_q24(args, row, c);
      squares += error * error;
    }
    sums.loss_q24 += args.row_weights().weighted(divide_rne(squares, args.classes * kOneQ24), row);
    if (args.targets != nullptr) continue;
    const int32_t* logits = args.logits + row * args.classes;
    const int64_t guess = std::max_element(logits, logits + args.classes) - logits;
    sums.correct += guess == args.labels[row];
  }
  return sums;
}

WideStatistics gradient(const SquaredError& args, int shift, MantissaSpan grad, int64_t begin_row,
                        int64_t end_row) noexcept {
  return with_wide_gradient_type(grad.bits, [&](auto type) {
    WideStatistics statistics;
    for (int64_t row = begin_row; row < end_row; ++row) {
      const int64_t factor = args.row_weights().factor(row);
      for (int64_t c = 0; c < args.classes; ++c) {
        // 2 d in Q30.
        const int64_t wide =
            divide_rne(__int128{error_q24(args, row, c)} << 7, args.classes) * factor;
        const int64_t rounded = shift_right_rne(wide, std::min(shift, 62));
        const int64_t narrow = saturate(rounded, mantissa_limit(grad.bits));
        statistics += {magnitude(wide), narrow != rounded};
        if (args.counts != nullptr) args.counts->add(magnitude(wide));
        grad.as<decltype(type)>()[row * args.classes + c] = static_cast<decltype(type)>(narrow);
      }
    }
    return statistics;
  });
}

}  // namespace

const SquaredErrorKernels kSquaredErrorReference = {"squared_error_reference", kNeedsNothing, loss,
                                                    gradient};

}  // namespace mantissa::kernels
