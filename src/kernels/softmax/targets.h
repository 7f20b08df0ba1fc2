// The targets that the logits of an example are compared with.
#pragma once

#include "kernels/softmax/softmax.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {

// Q30. The targets of a row add up to exactly one.
struct SoftmaxTargets {
  int64_t other, label;
  explicit constexpr SoftmaxTargets(const SoftmaxCrossEntropy& args)
      : other(args.smoothing == 0 ? 0 : divide_rne(__int128{args.smoothing} << 14, args.classes)),
        label((int64_t{1} << 30) - (args.classes - 1) * other) {}
};

}  // namespace mantissa::kernels
