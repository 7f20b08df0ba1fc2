// Wide results of 64 bits, and operands as bytes that take several products: the additional kernels
// for formats of more than 8 bits (docs/decisions/0023-wide-values.md).
//
// A function works on the elements [begin, end) of its operands, or on all of them, on the calling
// thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/system/cpu.h"
#include "kernels/bit_counts/wide_counts.h"
#include "kernels/common/mantissa_span.h"
#include "kernels/common/statistics.h"
#include "reference/elements/silu.h"
#include "reference/elements/wide.h"

namespace mantissa::kernels {

// What a call takes (reference/elements/wide.h, silu.h).
using NarrowWide = RefNarrowWide;
using Plane = RefPlane;
using GroupSums = RefGroupSums;
using FirstSums = RefFirstSums;
using ChannelProducts = RefChannelProducts;
using Rescaled = RefRescaled;
using ShiftedSums = RefShiftedSums;
using Products = RefProducts;
using Gelu = RefGelu;
using Silu = RefSilu;
using SiluGradient = RefSiluGradient;

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
  void (*products)(const Products&, int64_t begin, int64_t end) noexcept;
  void (*gelu)(const Gelu&, int64_t begin, int64_t end) noexcept;
  void (*silu)(const Silu&, int64_t begin, int64_t end) noexcept;
  void (*silu_gradient)(const SiluGradient&, int64_t begin, int64_t end) noexcept;
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
