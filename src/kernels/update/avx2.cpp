// The update for AVX2.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/target.h"
#include "kernels/update/update.h"
#include "numerics/lazy_update.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mantissa::kernels {
MANTISSA_TARGET_AVX2_BEGIN
namespace {
#include "kernels/update/update_loops.h"
// Built on these.
#include "kernels/lanes/avx2.h"
// Built on both.
#include "kernels/update/lane_loops.h"

// All 4 at once; the array has a whole number of them.
inline void square_roots(double* values, int64_t count) noexcept {
  for (int64_t i = 0; i < count; i += kLanes) {
    _mm256_store_pd(values + i, _mm256_sqrt_pd(_mm256_load_pd(values + i)));
  }
}

#include "kernels/update/optimizer_loops.h"
// Built on these.
#include "kernels/update/adam_direction_loops.h"
}  // namespace

const UpdateKernels kUpdateAvx2 = {"update_avx2",
                                   kNeedsAvx2,
                                   gradient_extremes,
                                   sketch_extremes_lanes,
                                   direction_extremes_lanes,
                                   directions_clipped,
                                   step_lanes,
                                   change_unit,
                                   look_ahead,
                                   adam_extremes,
                                   adam_direction,
                                   sum_of_squares};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
