// Operators of the tie-free form of frozen networks (0138), with fixed exponents.
#include <algorithm>

#include "kernels/common/parallel_ranges.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/same_shape.h"

namespace mantissa::ops {
namespace {

// Beyond this distance of exponents a sum clips, or one of its inputs vanishes.
constexpr int kMostAddShift = 40;

Result<Shape> infer_add_half_up(const Attributes&, std::span<const Shape> inputs) {
  if (inputs.size() != 2 || inputs[0] != inputs[1]) {
    return invalid_input("wants two inputs of one shape");
  }
  return inputs[0];
}

// floor((a 2^left_a + b 2^left_b) / 2^shift + 1/2), clipped.
void add_half_up(const OpContext& c) {
  const Tensor &a = c.inputs[0], &b = c.inputs[1];
  const int unit = std::min({*a.exponent, *b.exponent, *c.output().exponent});
  const auto above = [unit](int exponent) { return std::min(exponent - unit, kMostAddShift); };
  const int left_a = above(*a.exponent), left_b = above(*b.exponent);
  const int shift = above(*c.output().exponent);
  const int64_t half = (int64_t{1} << shift) >> 1;
  const int64_t least = c.mode.relu ? 0 : INT8_MIN;
  const int64_t most = c.mode.relu ? mantissa_limit(c.output().bits) : INT8_MAX;
  const auto *from_a = a.as<int8_t>(), *from_b = b.as<int8_t>();
  auto* to = c.output().as<int8_t>();
  kernels::parallel_ranges(
      *c.kernel.pool, c.output().count(), kernels::kElementsPerThread,
      [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t sum =
              from_a[i] * (int64_t{1} << left_a) + from_b[i] * (int64_t{1} << left_b);
          to[i] = static_cast<int8_t>(std::clamp((sum + half) >> shift, least, most));
        }
      });
}

// Mantissas of 8 bits in the int32 that losses and predictions read.
void widen(const OpContext& c) {
  std::copy_n(c.inputs[0].as<int8_t>(), c.output().count(), c.output().as<int32_t>());
  set_exponent(c, c.output(), *c.inputs[0].exponent);
}

}  // namespace

const Op kAddHalfUp = {.name = "add_half_up",
                       .traits = {.sign = Sign::kKept, .applies_relu = true},
                       .infer_shape = infer_add_half_up,
                       .integer = {.forward = {.run = add_half_up}}};

const Op kWiden = {.name = "widen",
                   .traits = {.narrowing = Narrowing::kLayer},
                   .infer_shape = same_shape,
                   .integer = {.forward = {.run = widen}}};

}  // namespace mantissa::ops
