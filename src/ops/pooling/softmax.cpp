// Softmax over the channels, the positions, the height or the width of an example: probabilities in
// Q30 as the kernels of cross-entropy compute them, requantised once. The backward pass computes
// them again from the input, so that no bit is lost to the result's width.
#include <string>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "kernels/softmax/softmax.h"
#include "ops/fp32.h"
#include "ops/kernel_name.h"
#include "ops/ops.h"
#include "ops/pooling/reduce.h"
#include "ops/wide_values.h"

namespace mantissa::ops {
namespace {

constexpr AttributeSpec kSoftmaxSchema[] = {
    text<&ReduceAttributes::over>("over", "channels", "positions height width channels")};

Result<Shape> infer_softmax(const Attributes& attributes, std::span<const Shape> inputs) {
  MANTISSA_RETURN_IF_ERROR(reduced_shape(attributes.as<ReduceAttributes>().over, inputs));
  return inputs[0];
}

Status check_softmax(const OpShapes& s) {
  const Reduction r = reduction_of(s.inputs[0], s.attributes->as<ReduceAttributes>().over);
  if (r.count <= kernels::kMaximumClasses) return {};
  return invalid_input("is over at most " + std::to_string(kernels::kMaximumClasses) +
                       " elements, not " + std::to_string(r.count));
}

// The workspace: the probabilities in Q30, one row after the other, and behind them the rows of
// logits, and backward the sum of each row.
struct SoftmaxWorkspace {
  int32_t *probabilities, *logits;
  int64_t* sums;
  SoftmaxWorkspace(std::byte* base, int64_t count)
      : probabilities(reinterpret_cast<int32_t*>(base)),
        logits(probabilities + round_up<int64_t>(count, 16)),
        sums(reinterpret_cast<int64_t*>(logits + round_up<int64_t>(count, 16))) {}
  static int64_t bytes(int64_t count, int64_t rows) {
    return 2 * round_up<int64_t>(count, 16) * int64_t{sizeof(int32_t)} +
           rows * int64_t{sizeof(int64_t)};
  }
};

OpMemory softmax_memory(const OpShapes& s, const PlanningContext&) {
  const Shape& shape = s.inputs[0];
  const Reduction r = reduction_of(shape, s.attributes->as<ReduceAttributes>().over);
  return {.forward = {.workspace_bytes = SoftmaxWorkspace::bytes(shape.count(), 0)},
          .grad_input = {.workspace_bytes = SoftmaxWorkspace::bytes(shape.count(), r.results())}};
}

// Element k of row i of a tensor that is [outer, count, inner]: rows are [outer, inner].
int64_t element_of(const Reduction& r, int64_t row, int64_t k) {
  return (row / r.inner * r.count + k) * r.inner + row % r.inner;
}
// The place of an element of the tensor among the rows.
int64_t place_in_rows(const Reduction& r, int64_t i) {
  return r.result_of(i) * r.count + i / r.inner % r.count;
}

int64_t softmax_grain(const Reduction& r) {
  return std::max<int64_t>(1, kernels::kElementsPerThread / 4 / r.count);
}

Reduction softmax_rows(const OpContext& c) {
  return reduction_of(c.inputs[0].shape, c.attributes<ReduceAttributes>().over);
}

// Fills the workspace's probabilities.
void fill_probabilities(const OpContext& c, const Reduction& r, const SoftmaxWorkspace& work) {
  const Mantissas in(c.inputs[0]);
  const kernels::SoftmaxCrossEntropy args = {
      .logits = work.logits, .exponent = *c.inputs[0].exponent, .classes = r.count};
  kernels::parallel_ranges(
      *c.kernel.pool, r.results(), softmax_grain(r), [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t row = begin; row < end; ++row) {
          int32_t* const to = work.logits + row * r.count;
          for (int64_t k = 0; k < r.count; ++k) {
            to[k] = static_cast<int32_t>(in[element_of(r, row, k)]);
          }
        }
        c.kernel.table->softmax->probabilities(args, work.probabilities, begin, end);
      });
}

void softmax_forward(const OpContext& c) {
  const Reduction r = softmax_rows(c);
  const SoftmaxWorkspace work(c.memory.workspace, c.inputs[0].count());
  fill_probabilities(c, r, work);
  write_wide(c, kernels::kSoftmaxGradientExponent, [&](int64_t i) -> int64_t {
    return work.probabilities[place_in_rows(r, i)];
  });
}

// p * (grad - sum of p * grad): the sum is rounded to units of the gradient that are finer by
// 2^kept, so that the product stays below 2^62.
void softmax_backward(const OpContext& c) {
  const Reduction r = softmax_rows(c);
  const SoftmaxWorkspace work(c.memory.workspace, c.inputs[0].count());
  fill_probabilities(c, r, work);
  const Mantissas grads(c.grad_output());
  const int kept = c.grad_output().bits <= 16 ? 15 : 0;
  kernels::parallel_ranges(
      *c.kernel.pool, r.results(), softmax_grain(r), [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t row = begin; row < end; ++row) {
          const int32_t* const p = work.probabilities + row * r.count;
          int64_t sum = 0;
          for (int64_t k = 0; k < r.count; ++k) sum += p[k] * grads[element_of(r, row, k)];
          work.sums[row] = shift_right_rne(sum, 30 - kept);
        }
      });
  write_wide_gradient(
      c, c.grad_inputs[0], *c.grad_output().exponent + kernels::kSoftmaxGradientExponent - kept,
      [&](int64_t i) {
        const int64_t centred = grads[i] * (int64_t{1} << kept) - work.sums[r.result_of(i)];
        return work.probabilities[place_in_rows(r, i)] * centred;
      });
}

}  // namespace

const Op kSoftmax = {.name = "softmax",
                     .traits = {.sign = Sign::kNeverNegative},
                     .attributes = schema<ReduceAttributes>(kSoftmaxSchema),
                     .infer_shape = infer_softmax,
                     .integer = {.memory = softmax_memory,
                                 .check = check_softmax,
                                 .forward = {.run = softmax_forward},
                                 .grad_input = {.run = softmax_backward},
                                 .kernel = kernel_name<&kernels::KernelTable::softmax>},
                     .emit_gradient = emit_gradient_by_inputs,
                     .fp32 = &fp32::kSoftmax};

}  // namespace mantissa::ops
