// The normative wide numbers: one element at a time, from the definitions.
#include <algorithm>

#include "kernels/wide/wide.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

WideStatistics narrow(const NarrowWide& args, int64_t begin, int64_t end) noexcept {
  const int64_t limit = mantissa_limit(args.out.bits);
  WideStatistics found;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t rounded = rescale_rne(args.wide[i], args.shift);
    const int64_t narrow = saturate(rounded, limit);
    found.maximum = std::max(found.maximum, magnitude(args.wide[i]));
    if (args.out.data == nullptr) continue;
    found.saturated += narrow != rounded;
    with_wide_gradient_type(args.out.bits, [&](auto type) {
      args.out.as<decltype(type)>()[i] = static_cast<decltype(type)>(narrow);
    });
  }
  return found;
}

void add_shifted(const GradientSums& part, int shift, int64_t* sums, int64_t begin,
                 int64_t end) noexcept {
  with_sum_type(part.bits, [&](auto type) {
    for (int64_t i = begin; i < end; ++i) {
      sums[i] += part.as<decltype(type)>()[i] * (int64_t{1} << shift);
    }
  });
}

void digits(const Digits& args, int64_t begin, int64_t end) noexcept {
  constexpr int kHalf = 1 << (kValueDigitBits - 1);
  for (int64_t i = begin; i < end; ++i) {
    int rest = args.in[i];
    for (int below = 0; below < args.plane; ++below) rest = (rest + kHalf) >> kValueDigitBits;
    if (!args.last) rest = ((rest + kHalf) & (2 * kHalf - 1)) - kHalf;
    args.out[i] = static_cast<int8_t>(rest);
  }
}

}  // namespace

const WideKernels kWideReference = {"wide_reference", Isa::kScalar, narrow, add_shifted, digits};

}  // namespace mantissa::kernels
