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

namespace mantissa::kernels {

// Mantissas of 16 or 32 bits that an update keeps from step to step.
struct Velocity {
  void* data = nullptr;  // null: none
  int bits = 16;

  Velocity() = default;
  // NOLINTBEGIN(google-explicit-constructor): as pointers to what they are
  Velocity(int16_t* mantissas) : data(mantissas) {}
  Velocity(int32_t* mantissas) : data(mantissas), bits(32) {}
  // NOLINTEND(google-explicit-constructor)
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

struct Update {
  GradientSums gradient;           // G
  void* weights = nullptr;         // W: int8 or int16
  int weight_bits = 8;             // of W: up to 8 are int8, else int16
  int16_t* accumulator = nullptr;  // A; may be null if shift is 0
  int shift = 15;                  // accumulator bits - 1; 0: no accumulator
  Velocity velocity = {};          // v; none for plain SGD
  bool looks_ahead = false;        // d is computed from the new velocity, and is not that
  int gradient_shift = 0;          // negative for sums of 32 bits only
  int64_t gradient_multiplier = 0, velocity_multiplier = 0, decay_multiplier = 0;
  int direction_bits = 16;  // as v if d is the new velocity, else 32
  int direction_shift = 0;
  int64_t rate_multiplier = 0;  // < 2^31
  int update_shift = 0;
  // Whether u is rounded stochastically: element i takes word i % 4 of block i / 4 as the highest
  // 32 bits of r.
  bool stochastic = false;
  RandomKey key;

  // Whether a step writes d, and change_unit reads it, in place of the velocity; else in place of
  // G.
  bool replaces_velocity() const { return velocity.data != nullptr && !looks_ahead; }
};

// Signed extremes of a pass's results (an empty range leaves low > high). The extremes of parts
// combine by min, max and sum.
struct Extremes {
  int64_t low = INT64_MAX;
  int64_t high = INT64_MIN;
  int64_t saturated = 0;
};

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
struct Adam {
  int16_t* first = nullptr;         // m
  int16_t* root = nullptr;          // s >= 0
  int64_t gradient_multiplier = 0;  // < 2^31
  int64_t first_multiplier = 0;
  int magnitude_shift = 0;
  int root_align = 0;             // at most 4
  int64_t square_multiplier = 0;  // in [0, 2^24]
  int first_shift = 0;            // in [0, 61]
  int64_t first_offset = 0;       // in [0, 2^first_shift)
  int root_shift = 0;             // in [0, 30]
  int64_t root_offset = 0, root_floor = 1;
  int numerator_shift = 0;                   // at most 46; negative: d = 0
  int64_t root_multiplier = 0, epsilon = 0;  // at most 2^13 and 2^28
};

// Bits of d after the point.
constexpr int kAdamDirectionBits = 15;
constexpr int kAdamLimitBits = 22;
constexpr int64_t kAdamDirectionLimit = int64_t{1} << kAdamLimitBits;
// Bits of the squares' weights, bits of h and r, and bits of S that are cut off.
constexpr int kAdamWeightBits = 24, kAdamRootBits = 19, kAdamCutBits = 10;

// Approximates the extremes of `wide`, in one pass with the extremes of G: two of its products, of
// 16 bits.
struct DirectionSketch {
  const int16_t* velocity = nullptr;             // v
  int gradient_shift = 0;                        // in [0, 31]; up to 62 for sums of 64 bits
  int gradient_factor = 0, velocity_factor = 0;  // in [0, 2^15)
};

struct SketchExtremes {
  Extremes gradient;   // of G
  Extremes direction;  // of (G >> gradient_shift) * gradient_factor + v * velocity_factor; G >>
                       // gradient_shift modulo 2^16
};

struct AdamExtremes {
  Extremes first;              // of M
  int64_t largest_square = 0;  // of S
};

// A sum of squares: high * 2^32 + low.
struct SquareSum {
  uint64_t low = 0, high = 0;
};

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
  void (*count_directions)(const Update&, int64_t begin, int64_t end, WideCounts&) noexcept;
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
