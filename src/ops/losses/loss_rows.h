// Forward and backward passes of losses over rows of logits, on several threads.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "kernels/common/parallel_ranges.h"
#include "kernels/kernel_table.h"
#include "kernels/softmax/softmax.h"
#include "numerics/rounding.h"
#include "ops/kernel_name.h"
#include "ops/loss.h"
#include "ops/losses/loss_weight.h"
#include "ops/narrowing.h"
#include "ops/rows.h"

namespace mantissa::ops {

constexpr int64_t kLossRowsPerThread = 32;

// Rows of logits: one for each example, or for each element of its sequence.
inline int64_t loss_rows(const OpContext& c) {
  return c.inputs[0].shape.count() / c.inputs[0].shape.last();
}

// The weights of rows, the input after the targets; null: each row counts 1.
inline const int16_t* row_weights_at(const OpContext& c, size_t input) {
  return c.inputs.size() > input ? c.inputs[input].as<int16_t>() : nullptr;
}

// Calls use(begin, end) for the pieces of [begin, end) whose logits have one exponent.
template <typename Use>
void for_each_exponent(const Tensor& logits, int64_t begin, int64_t end, const Use& use) {
  for (int64_t first = begin, next = begin; first < end; first = next) {
    next = has_rows(logits) ? first + 1 : end;
    while (next < end && logits.row_exponent(next) == logits.row_exponent(first)) ++next;
    use(first, next);
  }
}

// By has static functions: arguments(c, row), an object with row_weights(); loss(c, first, next)
// and gradient(c, shift, grad, first, next, counts) of rows whose logits have one exponent.
template <typename By>
void loss_forward(const OpContext& c) {
  std::array<kernels::LossSums, kernels::kMaximumParts> partial;
  const int64_t parts = kernels::parallel_ranges(
      *c.kernel.pool, loss_rows(c), kLossRowsPerThread,
      [&](int64_t begin, int64_t end, int64_t part) {
        for_each_exponent(c.inputs[0], begin, end, [&](int64_t first, int64_t next) {
          const kernels::LossSums sums = By::loss(c, first, next);
          partial[part].loss_q24 += sums.loss_q24;
          partial[part].correct += sums.correct;
        });
      });
  for (int64_t part = 0; part < parts; ++part) {
    c.step.loss->loss_q24 += partial[part].loss_q24;
    c.step.loss->correct += partial[part].correct;
  }
  count_rows(By::arguments(c, 0).row_weights(), loss_rows(c), *c.step.loss);
}

// Exponent of the wide gradient. kWideExponent: of a row without weights. The gradient is
// multiplied by 2^factor_exponent.
template <typename By, int kWideExponent>
int wide_gradient_exponent(const OpContext& c, int factor_exponent) {
  return kWideExponent - By::arguments(c, 0).row_weights().bits() + factor_exponent;
}

// Writes the gradient of all rows, narrowed by a shift.
template <typename By>
kernels::WideStatistics write_loss_gradient(const OpContext& c, const Tensor& grad, int shift,
                                            const kernels::PassCounts& counts) {
  return kernels::parallel_statistics(
      *c.kernel.pool, loss_rows(c), kLossRowsPerThread,
      [&](int64_t begin, int64_t end, int64_t part) {
        kernels::WideStatistics found;
        for_each_exponent(c.inputs[0], begin, end, [&](int64_t first, int64_t next) {
          found += By::gradient(c, shift, gradient_of(grad), first, next, counts.wide_of(part));
        });
        return found;
      });
}

template <typename By, int kWideExponent>
void loss_backward(const OpContext& c, int factor_exponent = 0) {
  const Tensor& grad = c.grad_inputs[0];
  narrow_gradient(c, grad, wide_gradient_exponent<By, kWideExponent>(c, factor_exponent),
                  [&](int shift, const kernels::PassCounts& counts) {
                    return write_loss_gradient<By>(c, grad, shift, counts);
                  });
}

// OpRows::memory of losses with a factor among several: unless it is a power of two, a weight for
// each row.
inline OpMemory loss_weight_memory(const OpShapes& s, const PlanningContext&) {
  if (is_power_of_two(loss_weight_q10(*s.attributes))) return {};
  const int64_t rows = s.inputs[0].count() / s.inputs[0].last();
  return {.grad_input = {.workspace_bytes = rows * int64_t{sizeof(int16_t)}}};
}

// Writes the weights of rows times the factor into the workspace, to nearest even, and returns the
// exponent of their unit beside the unit of weights. The factor alone decides the exponent: the
// least at which no weight can outgrow int16. So the content of a batch does not change it.
inline int write_weights_times(const OpContext& c, int64_t factor) {
  const int16_t* const weights = row_weights_at(c, 2);
  auto* const out = reinterpret_cast<int16_t*>(c.memory.workspace);
  if (weights == nullptr) {
    std::fill_n(out, loss_rows(c), static_cast<int16_t>(factor));
    return 0;
  }
  const int shift = std::bit_width(static_cast<uint64_t>(factor));
  for (int64_t row = 0; row < loss_rows(c); ++row) {
    out[row] = static_cast<int16_t>(shift_right_rne(weights[row] * factor, shift));
  }
  return shift - kernels::kRowWeightBits;
}

// The exponent of a factor that is a power of two.
inline int factor_exponent_of(int64_t factor) {
  return std::countr_zero(static_cast<uint64_t>(factor)) - kernels::kRowWeightBits;
}

// The backward pass of such a loss: a power of two moves the exponent, another factor is one of the
// weights of rows. These, if there are any, are the third input.
template <typename By, int kWideExponent>
void weighted_loss_backward(const OpContext& c) {
  const int64_t factor = loss_weight_q10(*c.node.attributes);
  if (is_power_of_two(factor)) {
    return loss_backward<By, kWideExponent>(c, factor_exponent_of(factor));
  }
  std::array<Tensor, 3> inputs = {c.inputs[0], c.inputs[1], c.inputs[1]};
  const int exponent = write_weights_times(c, factor);
  inputs[2].data = c.memory.workspace;
  OpContext weighted = c;
  weighted.inputs = inputs;
  loss_backward<By, kWideExponent>(weighted, exponent);
}

// inputs: logits int32 [N, ..., classes], labels int32 [N, ...], perhaps weights int16 [N, ...].
// `row` is one of the rows that they are for. Prepared is the smoothing.
inline kernels::SoftmaxCrossEntropy softmax_arguments(const OpContext& c, int64_t row) {
  return {c.inputs[0].as<int32_t>(),
          c.inputs[1].as<int32_t>(),
          c.inputs[0].row_exponent(row),
          c.inputs[0].shape.last(),
          *static_cast<const int64_t*>(c.kernel.prepared),
          row_weights_at(c, 2)};
}

// The family of kernels that computes a loss.
template <auto kFamily, auto kArguments>
struct ByFamily {
  static auto arguments(const OpContext& c, int64_t row) { return kArguments(c, row); }
  static kernels::LossSums loss(const OpContext& c, int64_t first, int64_t next) {
    return (c.kernel.table->*kFamily)->loss(kArguments(c, first), first, next);
  }
  static kernels::WideStatistics gradient(const OpContext& c, int shift, kernels::MantissaSpan grad,
                                          int64_t first, int64_t next,
                                          kernels::WideCounts* counts) {
    auto args = kArguments(c, first);
    args.counts = counts;
    return (c.kernel.table->*kFamily)->gradient(args, shift, grad, first, next);
  }
  static constexpr auto kKernel = kernel_name<kFamily>;
};

using BySoftmax = ByFamily<&kernels::KernelTable::softmax, softmax_arguments>;

// Losses that are computed a number at a time. Rows is made of a context and the first row. It has
//   row_weights()
//   lost(row): a row's loss in Q24, and whether it is correct, without its weight
//   prepare(row), then gradient(row, k): the gradient in Q30 of a logit, below 2^47, without it.
template <typename Rows>
struct ByNumbers {
  static Rows arguments(const OpContext& c, int64_t row) { return Rows(c, row); }
  static kernels::LossSums loss(const OpContext& c, int64_t first, int64_t next) {
    const Rows rows(c, first);
    const kernels::RowWeights weights = rows.row_weights();
    kernels::LossSums sums;
    for (int64_t row = first; row < next; ++row) {
      if (weights.factor(row) == 0) continue;
      const kernels::LossSums found = rows.lost(row);
      sums.loss_q24 += weights.weighted(found.loss_q24, row);
      sums.correct += found.correct;
    }
    return sums;
  }
  static kernels::WideStatistics gradient(const OpContext& c, int shift, kernels::MantissaSpan grad,
                                          int64_t first, int64_t next,
                                          kernels::WideCounts* counts) {
    return kernels::with_wide_gradient_type(grad.bits, [&](auto type) {
      Rows rows(c, first);
      const kernels::RowWeights weights = rows.row_weights();
      const int64_t outputs = c.inputs[0].shape.last();
      auto* const out = grad.as<decltype(type)>();
      kernels::WideStatistics statistics;
      for (int64_t row = first; row < next; ++row) {
        const int64_t factor = weights.factor(row);
        if (factor != 0) rows.prepare(row);
        for (int64_t k = 0; k < outputs; ++k) {
          const int64_t wide = factor == 0 ? 0 : rows.gradient(row, k) * factor;
          const int64_t rounded = shift_right_rne(wide, std::min(shift, 62));
          const int64_t narrow = saturate(rounded, mantissa_limit(grad.bits));
          statistics += {magnitude(wide), narrow != rounded};
          if (counts != nullptr) counts->add(magnitude(wide));
          out[row * outputs + k] = static_cast<decltype(type)>(narrow);
        }
      }
      return statistics;
    });
  }
};

// What a forward pass leaves: for the backward pass, or in programs without one for itself.
inline std::byte* left_memory(const OpContext& c) {
  return c.memory.saved != nullptr ? c.memory.saved : c.memory.workspace;
}

// Op::emit_gradient of losses whose forward pass leaves something for the backward pass.
inline void emit_saved_loss_gradient(GradientEmitter& e) {
  e.emit(e.rows().grad_input, {e.inputs(), e.grad_outputs(), e.saved(), e.grad_inputs()});
}

// Exponent of the wide gradients of these losses.
constexpr int kLossGradientExponent = -30;

}  // namespace mantissa::ops
