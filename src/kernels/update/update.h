// The optimiser's arithmetic on one parameter: direction, lazy update, rescaling.
//
// A parameter is W (int8 or int16, exponent e_w) and the lazy accumulator A (int16, exponent
// e_w - shift), together V = (W << shift) - A. Functions work on the elements [begin, end) on the
// calling thread. Order (METHODS section 1; BlockFloat [0135]-[0148]):
//   g    = rne(G >> gradient_shift)                          |g| <= 2^31
//   wide = g * gradient_multiplier + v * velocity_multiplier + V * decay_multiplier
//   d    = saturate(rne(wide >> direction_shift))            the new velocity, or the SGD direction
//   u    = rescale_rhu(d * rate_multiplier, update_shift)    in the accumulator's unit; stochastic,
//          for update_shift from 1 to 62: floor((d * rate_multiplier + r) / 2^update_shift), r
//          uniform below 2^update_shift
//   V'   = V - u, then doubled units while |W| does not fit, halved units while V is small.
// |wide| <= 2^61 and |d * rate_multiplier| < 2^62. Right shifts are >= 0; from 63 on all is rounded
// away.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "kernels/random_key.h"

namespace mantissa::kernels {

struct Update {
  int64_t* gradient = nullptr;     // G, then what each pass leaves for the next
  void* weights = nullptr;         // W: int8 or int16
  int weight_bits = 8;             // of W: up to 8 are int8, else int16
  int16_t* accumulator = nullptr;  // A; may be null if shift is 0
  int shift = 15;                  // accumulator bits - 1; 0: no accumulator
  int16_t* velocity = nullptr;     // v; null for plain SGD
  int gradient_shift = 0;
  int64_t gradient_multiplier = 0, velocity_multiplier = 0, decay_multiplier = 0;
  int direction_bits = 16;  // 16 with velocity, 32 without
  int direction_shift = 0;
  int64_t look_ahead_multiplier = 0;  // Nesterov only
  int64_t rate_multiplier = 0;        // < 2^31
  int update_shift = 0;
  // Whether u is rounded stochastically: element i takes word i % 4 of block i / 4 as the highest
  // 32 bits of r.
  bool stochastic = false;
  RandomKey key;
};

// Signed extremes of what a pass computed (an empty range leaves low > high); those of parts
// combine by min, max and sum.
struct Extremes {
  int64_t low = INT64_MAX;
  int64_t high = INT64_MIN;
  int64_t saturated = 0;
};

// Adam's moments of one parameter, 16-bit mantissas: m, and s, the root of the second moment.
// Order:
//   g = saturate(rne(G >> gradient_shift), 2^31 - 1)           G is what direction_extremes left
//   M = g * gradient_multiplier + m * first_multiplier         |M| <= 2^61
//   h = rne(|g| >> magnitude_shift), r = rne(s * 2^root_align)              both <= 2^19
//   S = (r^2 * (2^24 - square_multiplier) + h^2 * square_multiplier) >> 10  < 2^52 + 1
//   m' = saturate(sign(M) * ((|M| + first_offset) >> first_shift), 2^15 - 1)
//   s' = clamp((floor(sqrt(S)) + root_offset) >> root_shift, root_floor, 2^15 - 1)
//   d  = clamp(rne(m' * 2^numerator_shift / max(1, s' * root_multiplier + epsilon)), +-2^22)
// The denominator is below 2^29. Under these bounds an IEEE double gives the exact floor of the
// root and the exact quotient to nearest even, so both may be used.
struct Adam {
  int64_t* gradient = nullptr;  // G, then what each pass leaves for the next
  int16_t* first = nullptr;     // m
  int16_t* root = nullptr;      // s >= 0
  int gradient_shift = 0;
  int64_t gradient_multiplier = 0, first_multiplier = 0;
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

// Bits of d behind the point.
constexpr int kAdamDirectionBits = 15;
constexpr int kAdamLimitBits = 22;
constexpr int64_t kAdamDirectionLimit = int64_t{1} << kAdamLimitBits;
// Bits of the squares' weights, bits of h and r, and bits of S that are cut off.
constexpr int kAdamWeightBits = 24, kAdamRootBits = 19, kAdamCutBits = 10;

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
  Isa isa;
  // Extremes of G.
  Extremes (*gradient_extremes)(const int64_t* gradient, int64_t begin, int64_t end) noexcept;
  // Replaces G by `wide`; its extremes.
  Extremes (*direction_extremes)(const Update&, int64_t begin, int64_t end) noexcept;
  // Replaces `wide` by V' and writes d to velocity (if any); extremes of V'.
  Extremes (*step)(const Update&, int64_t begin, int64_t end) noexcept;
  // Splits V' (in gradient, which it may overwrite) into W and A after `growth` doublings of the
  // unit (negative: halvings, fewer than 32).
  void (*commit)(const Update&, int growth, int64_t begin, int64_t end) noexcept;
  // Nesterov, between direction_extremes and step: v' = saturate(rne(wide >> direction_shift)) with
  // 16 bits; wide becomes wide - v * velocity_multiplier + v' * look_ahead_multiplier, which is
  // below 2^62; v becomes v'. Extremes of the new wide, and how many v' were clipped.
  Extremes (*look_ahead)(const Update&, int64_t begin, int64_t end) noexcept;
  // Replaces G by g; extremes of M and S.
  AdamExtremes (*adam_extremes)(const Adam&, int64_t begin, int64_t end) noexcept;
  // Replaces g by d, m by m' and s by s'; returns how many m', s' and d were clipped.
  int64_t (*adam_direction)(const Adam&, int64_t begin, int64_t end) noexcept;
  // Sum of rne(G >> shift)^2, whose terms are at most 2^62. end - begin < 2^32.
  SquareSum (*sum_of_squares)(const int64_t* gradient, int shift, int64_t begin,
                              int64_t end) noexcept;
};

extern const UpdateKernels kUpdateReference;
#if defined(__x86_64__)
extern const UpdateKernels kUpdateAvx2;
extern const UpdateKernels kUpdateAvx512Vnni;
#endif

}  // namespace mantissa::kernels
