// Dropout: while training each element is dropped with probability p, a multiple of 1 / 65536, and
// the rest multiplied by 1 / (1 - p) in Q30; else the identity. The mask is not kept: backward
// computes it anew from the key (seed, micro-batch counted over the run, node, element).
#include <algorithm>
#include <array>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "numerics/nearest_fraction.h"
#include "numerics/point_functions.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/narrowing.h"
#include "ops/ops.h"
#include "ops/pointwise/dropout_mask.h"
#include "ops/same_shape.h"
#include "ops/value_table.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr int64_t kOne = kDropoutOne;

// The largest probability leaves one element in 65536.
constexpr AttributeSpec kSchema[] = {
    real<&DropoutAttributes::probability>("probability", 0.5, 0, 1 - 1.0 / kOne)};

void derive(DropoutAttributes& attributes) {
  attributes.dropped = nearest_whole(attributes.probability, kOne);
}

OpMemory memory(const OpShapes&, const PlanningContext& planning) {
  return {.forward = {.workspace_bytes = value_table_workspace_bytes(planning.threads)}};
}

// 1 / (1 - p) in Q30, to nearest: below 2^47.
int64_t scale_of(const OpContext& c) {
  return divide_rne(__int128{kOne} << 30, kOne - dropped_of(c));
}

void copy(const OpContext& c) {
  kernels::parallel_ranges(*c.kernel.pool, c.output().count(), kernels::kRandomElementsPerThread,
                           [&](int64_t begin, int64_t end, int64_t) {
                             const int64_t bytes = element_bytes(c.output().type);
                             std::copy_n(c.inputs[0].as<std::byte>() + begin * bytes,
                                         (end - begin) * bytes,
                                         c.output().as<std::byte>() + begin * bytes);
                           });
  *c.output().exponent = *c.inputs[0].exponent;
}

// Multiplies the output, which holds the elements kept, in place: their maximum decides everything
// about the exponent.
void scale_wide(const OpContext& c, int64_t scale, int wide_exponent) {
  const Mantissas kept(c.output());
  const auto wide = [&](int64_t i) { return kept[i] * scale; };
  const uint64_t maximum =
      c.mode.recomputes ? 0 : narrow_elements(c, c.output(), false, 0, wide).maximum;
  const auto write = [&](int shift, const kernels::PassCounts&) {
    return narrow_elements(c, c.output(), true, shift, wide).saturated;
  };
  const auto count = [&](kernels::WideCounts* counts) {
    kernels::parallel_ranges(*c.kernel.pool, c.output().count(), kernels::kRandomElementsPerThread,
                             [&](int64_t begin, int64_t end, int64_t part) {
                               for (int64_t i = begin; i < end; ++i) {
                                 counts[part].add(magnitude(wide(i)));
                               }
                             });
  };
  narrow_by_maximum(c, maximum, wide_exponent, write, count);
}

void forward(const OpContext& c) {
  if (!is_training(c.mode.exponents)) return copy(c);
  kernels::parallel_ranges(
      *c.kernel.pool, c.output().count(), kernels::kRandomElementsPerThread,
      [&](int64_t begin, int64_t end, int64_t) {
        for_each_mask(c, begin, end, [&](const int8_t* keep, int64_t at, int64_t count) {
          // Values are masked in the same way as gradients.
          c.kernel.table->elementwise->relu_gradient(keep, gradient_from(c.inputs[0], at),
                                                     gradient_from(c.output(), at), 0, count);
        });
      });
  const int64_t scale = scale_of(c);
  if (!is_bytes(c.output())) return scale_wide(c, scale, *c.inputs[0].exponent - 30);
  write_by_table(c, c.output().as<int8_t>(), make_value_table([&](int64_t q) { return q * scale; }),
                 *c.inputs[0].exponent - 30);
}

// The same for gradients, with its exponent: of 30 bits if these are too wide for more.
struct GradientScale {
  int64_t multiplier;
  int exponent;
};

GradientScale gradient_scale(const OpContext& c) {
  const int64_t scale = scale_of(c);
  const int excess =
      c.grad_output().bits <= 16 ? 0 : std::max(0, bit_length(magnitude(scale)) - 30);
  return {shift_right_rne(scale, excess), excess - 30};
}

void backward(const OpContext& c) {
  const Tensor& grad_input = c.grad_inputs[0];
  const GradientScale scale = gradient_scale(c);
  ValueTable factors = {};
  factors[1] = scale.multiplier;
  const Mantissas grads(c.grad_output());
  const auto pass = [&](int64_t begin, int64_t end, int shift, kernels::WideCounts* counts) {
    kernels::WideStatistics found;
    for_each_mask(c, begin, end, [&](const int8_t* keep, int64_t at, int64_t count) {
      const kernels::ScaleGradient args{.grad_out = gradient_from(c.grad_output(), at),
                                        .by = keep,
                                        .factors = factors.data(),
                                        .shift = shift,
                                        .grad_in = gradient_from(grad_input, at)};
      found += c.kernel.table->elementwise->scale_gradient(args, 0, count);
      count_written(counts, grad_input, at, at + count,
                    [&](int64_t i) { return keep[i - at] == 0 ? 0 : grads[i] * scale.multiplier; });
    });
    return found;
  };
  narrow_gradient(c, grad_input, *c.grad_output().exponent + scale.exponent,
                  [&](int shift, const kernels::PassCounts& counts) {
                    return kernels::parallel_statistics(
                        *c.kernel.pool, grad_input.count(), kernels::kRandomElementsPerThread,
                        [&](int64_t begin, int64_t end, int64_t part) {
                          return pass(begin, end, shift, counts.wide_of(part));
                        });
                  });
}

}  // namespace

const Op kIdentity = {.name = "identity",
                      .traits = {.sign = Sign::kKept, .row_by_row = true},
                      .infer_shape = same_shape};

const Op kDropout = {.name = "dropout",
                     .traits = {.sign = Sign::kKept},
                     .attributes = schema<DropoutAttributes, derive>(kSchema),
                     .infer_shape = same_shape,
                     .integer = {.memory = memory,
                                 .forward = {.run = forward},
                                 .grad_input = {.run = backward},
                                 .kernel = kernel_name<&kernels::KernelTable::rounding>},
                     .emit_gradient = emit_rounded_gradient,
                     .frozen = &kIdentity,
                     .fp32 = &fp32::kDropout};

}  // namespace mantissa::ops
