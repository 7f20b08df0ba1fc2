// The normative counts: one element at a time, from the definition.
#include "kernels/bit_counts/bit_counts.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {

void count_large(ConstMantissaSpan mantissas, int64_t begin, int64_t end,
                 LargeCounts& large) noexcept {
  with_wide_gradient_type(mantissas.bits, [&](auto type) {
    for (int64_t i = begin; i < end; ++i) {
      const auto size = static_cast<int64_t>(magnitude(mantissas.as<decltype(type)>()[i]));
      for (int k = 0; k < kFinerExponents; ++k) {
        large[static_cast<size_t>(k)] += size >= large_from(mantissas.bits, k);
      }
    }
  });
}

}  // namespace

const BitCountKernels kBitCountsReference = {"bit_counts_reference", kNeedsNothing, count_large};

}  // namespace mantissa::kernels
