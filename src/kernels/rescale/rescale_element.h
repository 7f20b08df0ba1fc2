// One element of a rescaling, by integer instructions.
#pragma once

#include <algorithm>

#include "kernels/rescale/rescale.h"
#include "numerics/float_product.h"

namespace mantissa::kernels {

// Writes element i of channel c; returns whether it was clipped.
inline bool rescale_element(const Rescale& args, int64_t i, int64_t c) noexcept {
  const int64_t wide = times_float(args.sums[i], float_parts(args.multipliers[c]));
  args.out[i] = static_cast<int8_t>(std::clamp<int64_t>(wide, args.least, args.most));
  return wide > args.most || (args.least < 0 && wide < args.least);
}

}  // namespace mantissa::kernels
