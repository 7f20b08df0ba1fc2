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

#include "reference/numerics/wide_counts.h"

// Mantissas of 16 or 32 bits that an update keeps from step to step.
typedef struct RefVelocity {
  void* data REF_CXX(= nullptr);  // null: none
  int bits REF_CXX(= 16);
#ifdef __cplusplus
  RefVelocity() = default;
  // NOLINTBEGIN(google-explicit-constructor): as pointers to what they are
  RefVelocity(int16_t* mantissas) : data(mantissas) {}
  RefVelocity(int32_t* mantissas) : data(mantissas), bits(32) {}
  // NOLINTEND(google-explicit-constructor)
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
#endif
} RefVelocity;

typedef struct RefUpdate {
  RefSums gradient;                         // G
  void* weights REF_CXX(= nullptr);         // W: int8 or int16
  int weight_bits REF_CXX(= 8);             // of W: up to 8 are int8, else int16
  int16_t* accumulator REF_CXX(= nullptr);  // A; may be null if shift is 0
  int shift REF_CXX(= 15);                  // accumulator bits - 1; 0: no accumulator
  RefVelocity velocity REF_CXX(= {});       // v; none for plain SGD
  bool looks_ahead REF_CXX(= false);        // d is computed from the new velocity, and is not that
  int gradient_shift REF_CXX(= 0);          // negative for sums of 32 bits only
  int64_t gradient_multiplier REF_CXX(= 0), velocity_multiplier REF_CXX(= 0),
      decay_multiplier REF_CXX(= 0);
  int direction_bits REF_CXX(= 16);  // as v if d is the new velocity, else 32
  int direction_shift REF_CXX(= 0);
  int64_t rate_multiplier REF_CXX(= 0);  // < 2^31
  int update_shift REF_CXX(= 0);
  // Whether u is rounded stochastically: element i takes word i % 4 of block i / 4 as the highest
  // 32 bits of r.
  bool stochastic REF_CXX(= false);
  RefRandomKey key;
#ifdef __cplusplus
  // Whether a step writes d, and change_unit reads it, in place of the velocity; else in place of
  // G.
  bool replaces_velocity() const { return velocity.data != nullptr && !looks_ahead; }
#endif
} RefUpdate;

// Signed extremes of a pass's results (an empty range leaves low > high). The extremes of parts
// combine by min, max and sum.
typedef struct RefExtremes {
  int64_t low REF_CXX(= INT64_MAX);
  int64_t high REF_CXX(= INT64_MIN);
  int64_t saturated REF_CXX(= 0);
} RefExtremes;

// Adam's moments of one parameter, 16-bit mantissas: m, and s, the root of the second moment.
// Order:
//   g = saturate(rne(wide >> direction_shift), 2^31 - 1)       the update's
//   M = g * gradient_multiplier + m * first_multiplier         |M| <= 2^61
//   h = rne(|g| >> magnitude_shift), r = rne(s * 2^root_align)              both <= 2^19
//   S = (r^2 * (2^24 - square_multiplier) + h^2 * square_multiplier) >> 10  < 2^52 + 1
//   m' = saturate(sign(M) * ((|M| + first_offset) >> first_shift), 2^15 - 1)
//   s' = clamp((floor(sqrt(S)) + root_offset) >> root_shift, root_floor, 2^15 - 1)
//   d  = clamp(rne(m' * 2^numerator_shift / max(1, s' * root_multiplier + epsilon)), +-2^22)
// The denominator is below 2^29. Under these bounds doubles can tell the exact floor of the root
// and the exact quotient to nearest even, so they may be used.
typedef struct RefAdam {
  int16_t* first REF_CXX(= nullptr);         // m
  int16_t* root REF_CXX(= nullptr);          // s >= 0
  int64_t gradient_multiplier REF_CXX(= 0);  // < 2^31
  int64_t first_multiplier REF_CXX(= 0);
  int magnitude_shift REF_CXX(= 0);
  int root_align REF_CXX(= 0);             // at most 4
  int64_t square_multiplier REF_CXX(= 0);  // in [0, 2^24]
  int first_shift REF_CXX(= 0);            // in [0, 61]
  int64_t first_offset REF_CXX(= 0);       // in [0, 2^first_shift)
  int root_shift REF_CXX(= 0);             // in [0, 30]
  int64_t root_offset REF_CXX(= 0), root_floor REF_CXX(= 1);
  int numerator_shift REF_CXX(= 0);                            // at most 46; negative: d = 0
  int64_t root_multiplier REF_CXX(= 0), epsilon REF_CXX(= 0);  // at most 2^13 and 2^28
} RefAdam;

enum {
  // Bits of d before and after the point.
  REF_ADAM_LIMIT_BITS = 22,
  REF_ADAM_DIRECTION_BITS = 15,
  // Bits of the squares' weights, bits of h and r, and bits of S that are cut off.
  REF_ADAM_WEIGHT_BITS = 24,
  REF_ADAM_ROOT_BITS = 19,
  REF_ADAM_CUT_BITS = 10
};

// Approximates the extremes of `wide`, in one pass with the extremes of G: two of its products, of
// 16 bits.
typedef struct RefDirectionSketch {
  const int16_t* velocity REF_CXX(= nullptr);  // v
  int gradient_shift REF_CXX(= 0);             // in [0, 31]; up to 62 for sums of 64 bits
  int gradient_factor REF_CXX(= 0), velocity_factor REF_CXX(= 0);  // in [0, 2^15)
} RefDirectionSketch;

typedef struct RefSketchExtremes {
  RefExtremes gradient;   // of G
  RefExtremes direction;  // of (G >> gradient_shift) * gradient_factor + v * velocity_factor; G >>
                          // gradient_shift modulo 2^16
} RefSketchExtremes;

typedef struct RefAdamExtremes {
  RefExtremes first;                    // of M
  int64_t largest_square REF_CXX(= 0);  // of S
} RefAdamExtremes;

// A sum of squares: high * 2^32 + low.
typedef struct RefSquareSum {
  uint64_t low REF_CXX(= 0), high REF_CXX(= 0);
} RefSquareSum;

REF_BEGIN

// Extremes of G.
RefExtremes ref_gradient_extremes(const RefSums*, int64_t begin, int64_t end) REF_NOEXCEPT;
RefSketchExtremes ref_sketch_extremes(const RefSums*, const RefDirectionSketch*, int64_t begin,
                                      int64_t end) REF_NOEXCEPT;
// Extremes of `wide`.
RefExtremes ref_direction_extremes(const RefUpdate*, int64_t begin, int64_t end) REF_NOEXCEPT;
// Counts `wide` by the shifts that it needs; writes nothing.
void ref_count_directions(const RefUpdate*, int64_t begin, int64_t end,
                          RefWideCounts* counts) REF_NOEXCEPT;
// Replaces the velocity by d, if d is the new velocity, else G. Replaces W and A by V', split, with
// the lowest bits of W. Gives the extremes of V', and how many d were clipped.
RefExtremes ref_update_step(const RefUpdate*, int64_t begin, int64_t end) REF_NOEXCEPT;
// After ref_update_step: replaces W and A by V' after `growth` doublings of the unit (negative:
// halvings, fewer than 32), split.
void ref_change_unit(const RefUpdate*, int growth, int64_t begin, int64_t end) REF_NOEXCEPT;
// Nesterov's first half: replaces the velocity by d, with the velocity's bits, and returns how many
// were clipped. The direction is then computed from the new velocity, whose multiplier is
// different: |wide| < 2^62.
int64_t ref_look_ahead(const RefUpdate*, int64_t begin, int64_t end) REF_NOEXCEPT;
// Replaces G by g; extremes of M and S.
RefAdamExtremes ref_adam_extremes(const RefUpdate*, const RefAdam*, int64_t begin,
                                  int64_t end) REF_NOEXCEPT;
// Replaces g by d, m by m' and s by s'; returns how many m', s' and d were clipped.
int64_t ref_adam_direction(const RefSums*, const RefAdam*, int64_t begin, int64_t end) REF_NOEXCEPT;
// Sum of rescale_rne(G, shift)^2, whose terms are at most 2^62. end - begin < 2^32.
RefSquareSum ref_sum_of_squares(const RefSums*, int shift, int64_t begin, int64_t end) REF_NOEXCEPT;

REF_END
