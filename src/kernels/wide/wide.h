// Wide results of 64 bits, and digits of operands that take several products of bytes: what formats
// of more than 8 bits need besides the kernels of 8 (docs/decisions/0023-wide-values.md).
//
// A function works on the elements [begin, end) of its operands, on the calling thread.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "kernels/gradient.h"
#include "kernels/statistics.h"

namespace mantissa::kernels {

// out = saturate(rescale_rne(wide, shift), +-(2^(bits-1) - 1)); |wide| <= 2^62. Without `out` the
// maximum only.
struct NarrowWide {
  const int64_t* wide = nullptr;
  int shift = 0;
  Gradient out;  // of up to 32 bits
};

// 7 bits each: the lowest of the plane's, in [-64, 63], or in the last plane all that is left.
constexpr int kValueDigitBits = 7;
struct Digits {
  const int16_t* in = nullptr;
  int plane = 0;  // 0..2
  bool last = false;
  int8_t* out = nullptr;
};

struct WideKernels {
  const char* name;
  Isa isa;
  WideStatistics (*narrow)(const NarrowWide&, int64_t begin, int64_t end) noexcept;
  // sums += part * 2^shift, `part` of 32 or 64 bits.
  void (*add_shifted)(const GradientSums& part, int shift, int64_t* sums, int64_t begin,
                      int64_t end) noexcept;
  void (*digits)(const Digits&, int64_t begin, int64_t end) noexcept;
};

extern const WideKernels kWideReference;
#if defined(__x86_64__)
extern const WideKernels kWideAvx2;
extern const WideKernels kWideAvx512Vnni;
#endif

}  // namespace mantissa::kernels
