// The optimiser's arithmetic on one parameter: direction, lazy update, rescaling.
//
// A parameter is W (int8 or int16, exponent e_w) and the lazy accumulator A (int16, exponent
// e_w - shift), together V = (W << shift) - A. Functions work on the elements [begin, end) on the
// calling thread. Order (METHODS section 1; BlockFloat [0135]-[0148]):
//   g    = rescale_rne(G, gradient_shift)                    |g| <= 2^31
//   wide = g * gradient_multiplier + v * velocity_multiplier + V * decay_multiplier
//   d    = saturate(rne(wide >> direction_shift))            the new velocity, or the SGD direction
//   u    = rescale_rhu(d * rate_multiplier, update_shift)    in the accumulator's unit; stochastic,
//          for update_shift from 1 to 62: floor((d * rate_multiplier + r) / 2^update_shift), r
//          uniform below 2^update_shift
//   V'   = V - u, then doubled units while |W| does not fit, halved units while V is small.
// In one pass a step writes V' in the units of V; most steps leave it there. If the unit changes,
// the lowest bits of W are enough to continue: |V| < 2^(width of W - 1 + shift), so that V' + u,
// known modulo 2^(width of W + shift), is V. |wide| <= 2^61 and |d * rate_multiplier| < 2^62. Right
// shifts are >= 0, except those that rescale; from 63 on everything is rounded away.
//
// `wide`, which needs 64 bits, is never written to memory. Its extremes are mostly known from a
// sketch; else it is computed twice.
#pragma once

#include <cstdint>

#include "base/system/cpu.h"
#include "kernels/bit_counts/wide_counts.h"
#include "kernels/common/mantissa_span.h"
#include "kernels/common/random_key.h"
#include "reference/training/update.h"

namespace mantissa::kernels {

// What a call takes and gives (reference/training/update.h).
using Velocity = RefVelocity;
using Update = RefUpdate;
using Extremes = RefExtremes;
using Adam = RefAdam;
using DirectionSketch = RefDirectionSketch;
using SketchExtremes = RefSketchExtremes;
using AdamExtremes = RefAdamExtremes;
using SquareSum = RefSquareSum;

// Bits of d after the point.
constexpr int kAdamDirectionBits = REF_ADAM_DIRECTION_BITS;
constexpr int kAdamLimitBits = REF_ADAM_LIMIT_BITS;
constexpr int64_t kAdamDirectionLimit = int64_t{1} << kAdamLimitBits;
// Bits of the squares' weights, bits of h and r, and bits of S that are cut off.
constexpr int kAdamWeightBits = REF_ADAM_WEIGHT_BITS, kAdamRootBits = REF_ADAM_ROOT_BITS;
constexpr int kAdamCutBits = REF_ADAM_CUT_BITS;

struct UpdateKernels {
  const char* name;
  Features needs;
  // Extremes of G.
  Extremes (*gradient_extremes)(const GradientSums&, int64_t begin, int64_t end) noexcept;
  SketchExtremes (*sketch_extremes)(const GradientSums&, const DirectionSketch&, int64_t begin,
                                    int64_t end) noexcept;
  // Extremes of `wide`.
  Extremes (*direction_extremes)(const Update&, int64_t begin, int64_t end) noexcept;
  // Counts `wide` by the shifts that it needs; writes nothing.
  void (*count_directions)(const Update&, int64_t begin, int64_t end, WideCounts*) noexcept;
  // Replaces the velocity by d, if d is the new velocity, else G. Replaces W and A by V', split,
  // with the lowest bits of W. Gives the extremes of V', and how many d were clipped.
  Extremes (*step)(const Update&, int64_t begin, int64_t end) noexcept;
  // After step: replaces W and A by V' after `growth` doublings of the unit (negative: halvings,
  // fewer than 32), split.
  void (*change_unit)(const Update&, int growth, int64_t begin, int64_t end) noexcept;
  // Nesterov's first half: replaces the velocity by d, with the velocity's bits, and returns how
  // many were clipped. The direction is then computed from the new velocity, whose multiplier is
  // different: |wide| < 2^62.
  int64_t (*look_ahead)(const Update&, int64_t begin, int64_t end) noexcept;
  // Replaces G by g; extremes of M and S.
  AdamExtremes (*adam_extremes)(const Update&, const Adam&, int64_t begin, int64_t end) noexcept;
  // Replaces g by d, m by m' and s by s'; returns how many m', s' and d were clipped. The first may
  // find roots and quotients by way of floating point, the second does not; the results are equal.
  int64_t (*adam_direction)(const GradientSums&, const Adam&, int64_t begin, int64_t end) noexcept;
  int64_t (*adam_direction_in_integers)(const GradientSums&, const Adam&, int64_t begin,
                                        int64_t end) noexcept;
  // Sum of rescale_rne(G, shift)^2, whose terms are at most 2^62. end - begin < 2^32.
  SquareSum (*sum_of_squares)(const GradientSums&, int shift, int64_t begin, int64_t end) noexcept;
};

extern const UpdateKernels kUpdateReference;
#if defined(__x86_64__)
extern const UpdateKernels kUpdateAvx2;
extern const UpdateKernels kUpdateAvx512Vnni;
#endif

}  // namespace mantissa::kernels
