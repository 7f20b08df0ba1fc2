// Wide results of 64 bits, and operands as bytes that take several products: the additional kernels
// for formats of more than 8 bits (docs/decisions/0023-wide-values.md).
//
// A function works on the elements [begin, end) of its operands, or on all of them, on the calling
// thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/system/cpu.h"
#include "kernels/bit_counts/wide_counts.h"
#include "kernels/common/mantissa_span.h"
#include "kernels/common/statistics.h"

namespace mantissa::kernels {

// out = saturate(rescale_rne(wide, shift), +-(2^(bits-1) - 1)); |wide| <= 2^62. Without `out` the
// maximum only.
struct NarrowWide {
  const int64_t* wide = nullptr;
  int shift = 0;
  MantissaSpan out;  // of up to 32 bits
};

// A byte of each mantissa as int8: of plane 1 the upper one, of plane 0 the lower one less 128. A
// mantissa is 256 * upper + lower + 128.
struct Plane {
  const int16_t* in = nullptr;
  int plane = 0;
  int8_t* out = nullptr;
};

// sums[pixel, g] = the sum of the pixel's channels of group g, which must fit int32. Elements are
// pixels.
struct GroupSums {
  ConstMantissaSpan in;  // [pixels, G, channels]
  int64_t groups = 1, channels = 1;
  int32_t* sums = nullptr;
};

// sums[pixel, g, o] = constants[g, o] + factor * of_groups[pixel, g]. Elements are pixels.
struct FirstSums {
  const int64_t* constants = nullptr;
  const int32_t* of_groups = nullptr;  // or null, as if 0
  int64_t factor = 1;
  int64_t groups = 1, channels = 1;  // of a group
  int64_t* sums = nullptr;
};

// sums[pixel, c] = first[c] + the sum over taps of in[pixel, c] * weights[c]. A tap's pixels lie
// `in_step` elements apart, the sums' pixels `sum_step`. Exact while it fits int64.
struct ChannelProducts {
  struct Tap {
    ConstMantissaSpan in;              // of its first pixel
    const int64_t* weights = nullptr;  // [channels], of up to 16 bits
  };
  std::span<const Tap> taps;       // of one width
  const int64_t* first = nullptr;  // [channels]
  int64_t channels = 1, pixels = 0;
  int64_t in_step = 1, sum_step = 1;
  int64_t* sums = nullptr;
};

// wide = rescale_rne(in, shift), or the sum of that and `wide`: mantissas at another exponent.
struct Rescaled {
  ConstMantissaSpan in;  // of up to 32 bits
  int shift = 0;
  bool adds = false;
  int64_t* wide = nullptr;
};

// wide = sums * 2^shifts: sums of channels at one exponent. Shifts are 0 to 29.
struct ShiftedSums {
  const int32_t *sums = nullptr, *shifts = nullptr;
  int64_t* wide = nullptr;
};

// wide = q * Phi(q * 2^exponent), Phi in Q30 (numerics/normal_distribution.h): GELU.
struct Gelu {
  ConstMantissaSpan in;  // of up to 16 bits
  int exponent = 0;
  int64_t* wide = nullptr;
};

struct WideKernels {
  const char* name;
  Features needs;
  WideStatistics (*narrow)(const NarrowWide&, int64_t begin, int64_t end) noexcept;
  // sums += part * 2^shift, `part` of 32 or 64 bits.
  void (*add_shifted)(const GradientSums& part, int shift, int64_t* sums, int64_t begin,
                      int64_t end) noexcept;
  void (*plane)(const Plane&, int64_t begin, int64_t end) noexcept;
  void (*group_sums)(const GroupSums&, int64_t begin, int64_t end) noexcept;
  // sums += part, modulo 2^32.
  void (*add)(const int32_t* part, int32_t* sums, int64_t begin, int64_t end) noexcept;
  void (*first_sums)(const FirstSums&, int64_t begin, int64_t end) noexcept;
  void (*channel_products)(const ChannelProducts&) noexcept;
  void (*rescale)(const Rescaled&, int64_t begin, int64_t end) noexcept;
  void (*shift_sums)(const ShiftedSums&, int64_t begin, int64_t end) noexcept;
  void (*gelu)(const Gelu&, int64_t begin, int64_t end) noexcept;
};

// kernel.narrow, block by block if wide values are to be counted.
inline WideStatistics narrow_counted(const WideKernels& kernel, const NarrowWide& args,
                                     int64_t begin, int64_t end, WideCounts* counts) noexcept {
  constexpr int64_t kBlock = 512;
  if (counts == nullptr) return kernel.narrow(args, begin, end);
  WideStatistics found;
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t next = std::min(end, at + kBlock);
    const WideStatistics block = kernel.narrow(args, at, next);
    if (counts->wants(block)) counts->add(args.wide + at, next - at);
    found += block;
  }
  return found;
}

extern const WideKernels kWideReference;
#if defined(__x86_64__)
extern const WideKernels kWideAvx2;
extern const WideKernels kWideAvx512Vnni;
#endif

}  // namespace mantissa::kernels
