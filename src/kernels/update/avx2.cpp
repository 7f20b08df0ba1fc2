// The update for AVX2.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/system/target.h"
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

inline bool all_zero(Words words) noexcept {
  const auto all = reinterpret_cast<__m256i>(words);
  return _mm256_testz_si256(all, all) != 0;
}
// Built on both.
#include "kernels/update/lane_loops.h"
// Built on update_loops.h.
#include "kernels/update/optimizer_loops.h"

using Reals [[gnu::vector_size(32)]] = double;
// An integer n and the double 2^52 + n have the same bits except for a constant. With 2^51 more, n
// may be negative.
inline Reals to_reals(Lanes n) noexcept {
  const Reals from = _mm256_blendv_pd(_mm256_set1_pd(0x1p52), _mm256_set1_pd(0x1.8p52),
                                      reinterpret_cast<__m256d>(n));
  return reinterpret_cast<Reals>(n + reinterpret_cast<Lanes>(from)) - from;
}
inline Reals near_root(Reals x) noexcept { return _mm256_sqrt_pd(x); }
// Rounded to 53 bits. n / d needs fewer if it lies between two integers.
inline Reals near_quotient(Reals n, Reals d) noexcept { return n / d; }
inline Reals clipped(Reals n, Reals limit) noexcept {
  const Reals low = n < -limit ? -limit : n;
  return low > limit ? limit : low;
}
// Built on all of these.
#include "kernels/update/adam_lane_loops.h"
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
                                   adam_extremes_lanes,
                                   adam_direction<RealArithmetic>,
                                   adam_direction<IntegerArithmetic>,
                                   sum_of_squares};

}  // namespace mantissa::kernels
// Here, not earlier: templates are instantiated at the end, with the options in force there.
MANTISSA_TARGET_END
#endif
