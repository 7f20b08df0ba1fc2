// The normative norms of rows.
#include "kernels/row_norms/elements.h"
#include "kernels/row_norms/row_norms.h"

namespace mantissa::kernels {
namespace {

RowSums sums(ConstMantissaSpan q, int64_t channels) noexcept {
  return with_value_type(
      q.bits, [&](auto type) { return sums_from(q.as<decltype(type)>(), 0, channels, RowSums()); });
}

void normalise(ConstMantissaSpan q, const RowNorm& norm, int64_t channels, int32_t* x) noexcept {
  with_value_type(q.bits,
                  [&](auto type) { normalise_from(q.as<decltype(type)>(), norm, 0, channels, x); });
}

void scale(const int32_t* x, const int16_t* scale, const int64_t* offset, int64_t channels,
           int64_t* wide) noexcept {
  scale_from(x, scale, offset, 0, channels, wide);
}

void gradient(const RowNormGradient& args, ConstMantissaSpan dy, int64_t channels,
              int64_t* wide) noexcept {
  with_wide_gradient_type(dy.bits, [&](auto type) {
    const auto* grads = dy.as<decltype(type)>();
    const GradientTotals totals = totals_from(args, grads, 0, channels, GradientTotals());
    gradient_from(args, totals, grads, 0, channels, channels, wide);
  });
}

void add_gradients(const int32_t* x, ConstMantissaSpan dy, int64_t channels, int64_t* of_scale,
                   int64_t* of_offset) noexcept {
  with_gradient_type(dy.bits, [&](auto type) {
    add_gradients_from(x, dy.as<decltype(type)>(), 0, channels, of_scale, of_offset);
  });
}

}  // namespace

const RowNormKernels kRowNormsReference = {
    "row_norms_reference", kNeedsNothing, sums, normalise, scale, gradient, add_gradients};

}  // namespace mantissa::kernels
