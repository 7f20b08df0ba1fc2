// The difference of two values. The gradient passes on to the first, and with the other sign to the
// second: mantissas are symmetric.
#include <algorithm>

#include "kernels/common/parallel_ranges.h"
#include "numerics/exponent.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/ops.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

struct SubtractAttributes {
  int least_bits = 0;  // of the result's mantissas
};
constexpr AttributeSpec kSubtractSchema[] = {
    whole<&SubtractAttributes::least_bits>("least_bits", 0, 0, 16)};

Result<Shape> infer_difference(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() == 2 && inputs[0] == inputs[1]) return inputs[0];
  return invalid_input("wants two inputs of one shape");
}

// In add's unit.
void subtract(const OpContext& c) {
  const Tensor &a = c.inputs[0], &b = c.inputs[1];
  const bool bytes = is_bytes(a) && is_bytes(b) && is_bytes(c.output());
  const int wide_exponent =
      aligned_exponent(*a.exponent, *b.exponent, bytes ? kAlignBits8 : kAlignBits16);
  const int shift_a = wide_exponent - *a.exponent, shift_b = wide_exponent - *b.exponent;
  kernels::with_value_type(a.bits, [&](auto first) {
    kernels::with_value_type(b.bits, [&](auto second) {
      const auto* from = a.as<decltype(first)>();
      const auto* less = b.as<decltype(second)>();
      write_wide(c, wide_exponent, [&](int64_t i) {
        return rescale_rne(from[i], shift_a) - rescale_rne(less[i], shift_b);
      });
    });
  });
}

void subtract_backward(const OpContext& c) {
  for (const bool is_second : {false, true}) {
    const Tensor& to = c.grad_inputs[is_second ? 1 : 0];
    if (to.empty()) continue;
    kernels::with_wide_gradient_type(to.bits, [&](auto type) {
      using T = decltype(type);
      kernels::parallel_ranges(*c.kernel.pool, to.count(), kernels::kElementsPerThread,
                               [&](int64_t begin, int64_t end, int64_t) {
                                 const T* from = c.grad_output().as<T>();
                                 for (int64_t i = begin; i < end; ++i) {
                                   to.as<T>()[i] = static_cast<T>(is_second ? -from[i] : from[i]);
                                 }
                               });
    });
    *to.exponent = *c.grad_output().exponent;
  }
}

}  // namespace

const Op kSubtract = {
    .name = "subtract",
    .traits = {.row_by_row = true},
    .attributes = schema<SubtractAttributes>(kSubtractSchema),
    .bits = least_bits<SubtractAttributes>,
    .infer_shape = infer_difference,
    .integer = {.forward = {.run = subtract}, .grad_input = {.run = subtract_backward}},
    .emit_gradient = emit_passed_gradient,
    .fp32 = &fp32::kSubtract};

}  // namespace mantissa::ops
