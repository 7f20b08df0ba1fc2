// Maxima, means and sums over the positions, the height, the width or the channels of an example.
// Sums are exact; means are exact sums times 1/n in 31 bits, as of global average pooling.
#include <algorithm>
#include <string>

#include "kernels/common/parallel_ranges.h"
#include "ops/fp32.h"
#include "ops/ops.h"
#include "ops/pooling/reciprocal.h"
#include "ops/pooling/reduce.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kReduceSchema[] = {
    text<&ReduceAttributes::over>("over", "positions", "positions height width channels")};

Result<Shape> infer_reduced(const Attributes& attributes, std::span<const Shape> inputs) {
  return reduced_shape(attributes.as<ReduceAttributes>().over, inputs);
}

// Of the input, or of its gradient.
Reduction reduction_of(const OpContext& c, const Tensor& tensor) {
  return ops::reduction_of(tensor.shape, c.attributes<ReduceAttributes>().over);
}

// Calls function(first, last) on ranges of [0, outer).
template <typename Function>
void for_outer(const OpContext& c, const Reduction& r, const Function& function) {
  const int64_t grain = std::max<int64_t>(1, kernels::kElementsPerThread / (r.count * r.inner));
  kernels::parallel_ranges(*c.kernel.pool, r.outer, grain,
                           [&](int64_t begin, int64_t end, int64_t) {
                             for (int64_t outer = begin; outer < end; ++outer) function(outer);
                           });
}

OpMemory sum_memory(const OpShapes& s, const PlanningContext&) {
  return {.forward = {.workspace_bytes = s.output.count() * int64_t{sizeof(int64_t)}}};
}

// Sums of values, times the multiplier of a mean.
Status check_sums(const OpShapes& s) {
  const Reduction r = ops::reduction_of(s.inputs[0], s.attributes->as<ReduceAttributes>().over);
  const int bits = s.input_bits(0), most = 62 - kMeanBits - bits;
  if (r.count <= int64_t{1} << most) return {};
  return invalid_input("sums at most 2^" + std::to_string(most) + " values of " +
                       std::to_string(bits) + " bits exactly");
}

template <bool kMean>
void sum_forward(const OpContext& c) {
  const Reduction r = reduction_of(c, c.inputs[0]);
  auto* const sums = reinterpret_cast<int64_t*>(c.memory.workspace);
  const Reciprocal factor = kMean ? reciprocal(r.count) : Reciprocal{1, 0};
  kernels::with_value_type(c.inputs[0].bits, [&](auto type) {
    const auto* in = c.inputs[0].as<decltype(type)>();
    for_outer(c, r, [&](int64_t outer) {
      int64_t* const to = sums + outer * r.inner;
      std::fill_n(to, r.inner, 0);
      const auto* from = in + outer * r.count * r.inner;
      for (int64_t k = 0; k < r.count; ++k, from += r.inner) {
        for (int64_t i = 0; i < r.inner; ++i) to[i] += from[i];
      }
      for (int64_t i = 0; i < r.inner; ++i) to[i] *= factor.multiplier;
    });
  });
  const int wide_exponent = *c.inputs[0].exponent + factor.exponent;
  calibrate(c, wide_exponent, [&](int64_t i) { return sums[i]; });
  narrow_by_passes(
      c, wide_exponent,
      [&](bool writes, int shift, const kernels::PassCounts& counts) {
        return narrow_wide(c, sums, c.output(), writes, shift, counts);
      },
      64);
}

// Each element has the gradient of its mean, times 1 / n.
void mean_backward(const OpContext& c) {
  const Reduction r = reduction_of(c, c.grad_inputs[0]);
  const Reciprocal factor = reciprocal(r.count, c.grad_output().bits <= 16 ? kMeanBits : 30);
  write_wide_gradient(c, c.grad_inputs[0], *c.grad_output().exponent + factor.exponent,
                      [&, grads = Mantissas(c.grad_output())](int64_t i) {
                        return grads[r.result_of(i)] * factor.multiplier;
                      });
}

// Each element has the gradient of its sum.
void sum_backward(const OpContext& c) {
  const Reduction r = reduction_of(c, c.grad_inputs[0]);
  kernels::with_wide_gradient_type(c.grad_output().bits, [&](auto type) {
    using T = decltype(type);
    for_outer(c, r, [&](int64_t outer) {
      const T* from = c.grad_output().as<T>() + outer * r.inner;
      T* to = c.grad_inputs[0].as<T>() + outer * r.count * r.inner;
      for (int64_t k = 0; k < r.count; ++k, to += r.inner) std::copy_n(from, r.inner, to);
    });
  });
  *c.grad_inputs[0].exponent = *c.grad_output().exponent;
}

void max_forward(const OpContext& c) {
  const Reduction r = reduction_of(c, c.inputs[0]);
  kernels::with_value_type(c.inputs[0].bits, [&](auto type) {
    using T = decltype(type);
    for_outer(c, r, [&](int64_t outer) {
      const T* from = c.inputs[0].as<T>() + outer * r.count * r.inner;
      T* const to = c.output().as<T>() + outer * r.inner;
      std::copy_n(from, r.inner, to);
      for (int64_t k = 1; k < r.count; ++k) {
        from += r.inner;
        for (int64_t i = 0; i < r.inner; ++i) to[i] = std::max(to[i], from[i]);
      }
    });
  });
  *c.output().exponent = *c.inputs[0].exponent;
}

// The first maximum has the gradient.
template <typename Value, typename Gradient>
void pass_to_maxima(const Reduction& r, const Value* in, const Gradient* from, Gradient* to) {
  std::fill_n(to, r.count * r.inner, Gradient{0});
  for (int64_t i = 0; i < r.inner; ++i) {
    int64_t best = i;
    for (int64_t at = i; at < r.count * r.inner; at += r.inner) {
      if (in[at] > in[best]) best = at;
    }
    to[best] = from[i];
  }
}

void max_backward(const OpContext& c) {
  const Reduction r = reduction_of(c, c.grad_inputs[0]);
  kernels::with_value_type(c.inputs[0].bits, [&](auto value) {
    kernels::with_wide_gradient_type(c.grad_output().bits, [&](auto gradient) {
      using T = decltype(gradient);
      for_outer(c, r, [&](int64_t outer) {
        const int64_t at = outer * r.count * r.inner;
        pass_to_maxima(r, c.inputs[0].as<decltype(value)>() + at,
                       c.grad_output().as<T>() + outer * r.inner, c.grad_inputs[0].as<T>() + at);
      });
    });
  });
  *c.grad_inputs[0].exponent = *c.grad_output().exponent;
}

}  // namespace

Result<Shape> reduced_shape(ReducedAxes over, std::span<const Shape> inputs) {
  if (inputs.size() != 1 || inputs[0].rank == 0) return invalid_input("wants one input");
  const Shape& shape = inputs[0];
  if (over == ReducedAxes::kPositions) {
    if (shape.rank >= 2) return Shape{shape.last()};
    return invalid_input("wants [H, W, C] or [positions, C]");
  }
  if (over != ReducedAxes::kChannels && shape.rank != 3) return invalid_input("wants [H, W, C]");
  Shape reduced = shape;
  reduced.dims[over == ReducedAxes::kHeight  ? 0
               : over == ReducedAxes::kWidth ? 1
                                             : shape.rank - 1] = 1;
  return reduced;
}

const Op kReduceMax = {
    .name = "reduce_max",
    .traits = {.narrowing = Narrowing::kPassed, .sign = Sign::kKept},
    .attributes = schema<ReduceAttributes>(kReduceSchema),
    .infer_shape = infer_reduced,
    .integer = {.forward = {.run = max_forward}, .grad_input = {.run = max_backward}},
    .emit_gradient = emit_passed_gradient_by_inputs,
    .fp32 = &fp32::kReduceMax};

const Op kReduceMean = {.name = "reduce_mean",
                        .traits = {.sign = Sign::kKept},
                        .attributes = schema<ReduceAttributes>(kReduceSchema),
                        .infer_shape = infer_reduced,
                        .integer = {.memory = sum_memory,
                                    .check = check_sums,
                                    .forward = {.run = sum_forward<true>},
                                    .grad_input = {.run = mean_backward}},
                        .emit_gradient = emit_rounded_gradient,
                        .fp32 = &fp32::kReduceMean};

const Op kReduceSum = {.name = "reduce_sum",
                       .traits = {.sign = Sign::kKept},
                       .attributes = schema<ReduceAttributes>(kReduceSchema),
                       .infer_shape = infer_reduced,
                       .integer = {.memory = sum_memory,
                                   .check = check_sums,
                                   .forward = {.run = sum_forward<false>},
                                   .grad_input = {.run = sum_backward}},
                       .emit_gradient = emit_passed_gradient,
                       .fp32 = &fp32::kReduceSum};

}  // namespace mantissa::ops
