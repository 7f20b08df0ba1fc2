// A parameter under test, and how its update is run.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "graph/op.h"
#include "kernels/kernel_table.h"

namespace mantissa::ops {

constexpr int kShift = 15;  // of the lazy update

template <typename T>
Tensor tensor_of(std::vector<T>& data, const Shape& shape, int16_t* exponent, int64_t* saturated) {
  Tensor tensor;
  tensor.data = data.data();
  tensor.type = sizeof(T) == 1   ? DataType::kInt8
                : sizeof(T) == 2 ? DataType::kInt16
                : sizeof(T) == 4 ? DataType::kInt32
                                 : DataType::kInt64;
  tensor.shape = shape;
  tensor.exponent = exponent;
  tensor.saturated = saturated;
  return tensor;
}

// Calls function(context) with the context of one parameter's update; returns the step's totals.
template <typename Function>
StepTotals with_context(ParameterView view, const StepScalars& scalars, int threads,
                        Function&& function) {
  const kernels::KernelTable kernels = kernels::select_kernels(best_isa());
  ThreadPool pool(threads);
  StepTotals totals;
  OpContext c;
  c.parameters = std::span(&view, 1);
  c.kernel.pool = &pool;
  c.kernel.table = &kernels;
  c.step.scalars = &scalars;
  c.step.totals = &totals;
  function(c);
  return totals;
}

// Runs an operator on one parameter.
inline StepTotals run_on(const Op& op, const ParameterView& view, const StepScalars& scalars,
                         int threads) {
  return with_context(view, scalars, threads,
                      [&](const OpContext& c) { op.integer.forward.run(c); });
}

// One update of `view`, by sums in units of 2^gradient_exponent, or in units of their own if they
// are exact; returns that exponent for the next step.
inline int16_t run_update(const Op& op, ParameterView view, int16_t gradient_exponent,
                          const StepScalars& scalars, int threads) {
  view.fixed_exponent = &gradient_exponent;  // which the update changes, for the next step
  if (view.gradient.exponent == nullptr) view.gradient.exponent = &gradient_exponent;
  view.lazy_shift = kShift;
  view.decays = true;
  const StepTotals totals = run_on(op, view, scalars, threads);
  EXPECT_FALSE(totals.exponent_overflow || totals.gradient_overflow);
  return gradient_exponent;
}

}  // namespace mantissa::ops
