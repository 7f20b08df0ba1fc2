// The normative stochastic rounding: one element at a time, from the definition.
#include <algorithm>

#include "base/random.h"
#include "kernels/rounding/rounding.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

// The 16 random bits of element i.
uint32_t random_half(const RandomKey& key, int64_t i) {
  const int64_t block = i / 128 * 16 + i % 16;
  const auto words = key.block(static_cast<uint32_t>(block));
  return words[i / 32 % 4] >> (16 * (i / 16 % 2)) & 0xffff;
}

int64_t round(const RoundStochastically& args, int64_t begin, int64_t end) noexcept {
  int64_t clipped = 0;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t added = random_half(args.key, i) >> (16 - args.shift);
    const int64_t rounded = (args.in[i] + added) >> args.shift;
    const int64_t narrow = saturate(rounded, mantissa_limit(args.out.bits));
    with_gradient_type(args.out.bits, [&](auto type) {
      args.out.as<decltype(type)>()[i] = static_cast<decltype(type)>(narrow);
    });
    clipped += narrow != rounded;
  }
  return clipped;
}

int64_t round_to_nearest(const RoundToNearest& args, int64_t begin, int64_t end) noexcept {
  int64_t clipped = 0;
  with_wide_gradient_type(args.in.bits, [&](auto from) {
    with_gradient_type(args.out.bits, [&](auto to) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t rounded = shift_right_rne(args.in.as<decltype(from)>()[i], args.shift);
        const int64_t narrow = saturate(rounded, mantissa_limit(args.out.bits));
        args.out.as<decltype(to)>()[i] = static_cast<decltype(to)>(narrow);
        clipped += narrow != rounded;
      }
    });
  });
  return clipped;
}

uint64_t maximum(ConstMantissaSpan in, int64_t begin, int64_t end) noexcept {
  uint64_t largest = 0;
  with_wide_gradient_type(in.bits, [&](auto type) {
    const auto* from = in.as<decltype(type)>();
    for (int64_t i = begin; i < end; ++i) largest = std::max(largest, magnitude(from[i]));
  });
  return largest;
}

void keep_mask(const RandomKey& key, uint32_t dropped, int64_t begin, int64_t end,
               int8_t* keep) noexcept {
  for (int64_t i = begin; i < end; ++i) keep[i - begin] = random_half(key, i) >= dropped;
}

}  // namespace

const RoundingKernels kRoundingReference = {"rounding_reference", kNeedsNothing, round,
                                            round_to_nearest,     maximum,       keep_mask};

}  // namespace mantissa::kernels
