// The normative update loops, compiled for any CPU.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "kernels/update/update.h"
#include "numerics/lazy_update.h"

namespace mantissa::kernels {
namespace {
#include "kernels/update/update_loops.h"

inline void square_roots(double* values, int64_t count) noexcept {
  for (int64_t i = 0; i < count; ++i) values[i] = std::sqrt(values[i]);
}

#include "kernels/update/optimizer_loops.h"
}  // namespace

const UpdateKernels kUpdateReference = {
    "update_reference", Isa::kScalar,  gradient_extremes, direction_extremes, step, commit,
    look_ahead,         adam_extremes, adam_direction,    sum_of_squares};

}  // namespace mantissa::kernels
