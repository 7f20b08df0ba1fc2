// The optimiser's arithmetic on one parameter: direction, lazy update, rescaling.
//
// A parameter is W (int8 or int16, exponent e_w) and the lazy accumulator A (int16, exponent
// e_w - shift), together V = (W << shift) - A. Functions work on the elements [begin, end) on the
// calling thread. Order (METHODS section 1; BlockFloat [0135]-[0148]):
//   g    = rne(G >> gradient_shift)                          |g| <= 2^31
//   wide = g * gradient_multiplier + v * velocity_multiplier + V * decay_multiplier
//   d    = saturate(rne(wide >> direction_shift))            the new velocity, or the SGD direction
//   u    = rescale_rhu(d * rate_multiplier, update_shift)    in the accumulator's unit
//   V'   = V - u, then doubled units while |W| does not fit, halved units while V is small.
// |wide| <= 2^61 and |d * rate_multiplier| < 2^62. Right shifts are >= 0; from 62 on all is rounded
// away.
#pragma once

#include <cstdint>

#include "base/cpu.h"

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
  int64_t rate_multiplier = 0;  // < 2^31
  int update_shift = 0;
};

// Signed extremes of what a pass computed (an empty range leaves low > high); those of parts
// combine by min, max and sum.
struct Extremes {
  int64_t low = INT64_MAX;
  int64_t high = INT64_MIN;
  int64_t saturated = 0;
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
};

extern const UpdateKernels kUpdateReference;
#if defined(__x86_64__)
extern const UpdateKernels kUpdateAvx2;
extern const UpdateKernels kUpdateAvx512Vnni;
#endif

}  // namespace mantissa::kernels
