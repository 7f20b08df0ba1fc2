// A loss on operands that a test gives, in integers and in fp32.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/kernel_table.h"
#include "ops/loss.h"
#include "ops/ops.h"
#include "tensor/table_numbers.h"

namespace mantissa::testing {

struct LossFound {
  double loss = 0;  // the sum, in the loss's unit
  LossTotals totals;
  std::vector<double> gradient;  // [rows * outputs]
};

struct LossRows {
  int64_t rows = 0, outputs = 0;
  int64_t places = 0;  // of an example; 0: a row is an example
  std::vector<int32_t> logits = {};  // mantissas
  int exponent = -12;
  std::vector<int32_t> labels = {};   // [rows], or [rows * outputs]
  std::vector<int16_t> targets = {};  // [rows * outputs]
  int target_exponent = kTargetExponent;
  std::vector<int16_t> weights = {};  // [rows] in 2^-10
  std::vector<int16_t> row_exponents = {};
  int64_t most_labels = 0;            // of examples with sequences of labels: [examples, most]
  std::vector<int32_t> lengths = {};  // [examples]

  double logit(int64_t i) const { return std::ldexp(logits[i], exponent_of(i / outputs)); }
  double target(int64_t i) const { return std::ldexp(targets[i], target_exponent); }
  double weight(int64_t row) const { return weights.empty() ? 1 : weights[row] / 1024.0; }
  int exponent_of(int64_t row) const {
    return row_exponents.empty() ? exponent : row_exponents[row];
  }

  // Gradients of 16 bits, or in fp32.
  LossFound run(const Op& op, const Attributes& given, bool floats = false, int threads = 1,
                Isa isa = best_isa()) const {
    const auto attributes = complete(given, op.attributes);
    EXPECT_TRUE(attributes.ok()) << (attributes.ok() ? "" : attributes.error().message);
    int16_t exponents[] = {static_cast<int16_t>(exponent), 0, static_cast<int16_t>(target_exponent),
                           kWeightExponent, 99};
    std::vector<float> reals;
    for (size_t i = 0; i < logits.size(); ++i) {
      reals.push_back(static_cast<float>(logit(static_cast<int64_t>(i))));
    }
    const Shape all = places > 0 ? Shape{rows / places, places, outputs} : Shape{rows, outputs};
    const Shape of_rows = places > 0 ? Shape{rows / places, places} : Shape{rows};
    const Shape of_labels = most_labels > 0 ? Shape{rows / places, most_labels} : of_rows;
    const auto tensor = [&](const auto& data, DataType type, const Shape& shape, int16_t* of) {
      Tensor made;
      made.data = const_cast<void*>(static_cast<const void*>(data.data()));
      made.type = type;
      made.bits = type == DataType::kInt16 ? 16 : 32;
      made.shape = shape;
      made.exponent = of;
      return made;
    };
    std::vector<Tensor> inputs = {floats ? tensor(reals, DataType::kFloat, all, exponents)
                                         : tensor(logits, DataType::kInt32, all, exponents)};
    if (!row_exponents.empty()) {
      inputs[0].row_exponents = const_cast<int16_t*>(row_exponents.data());
    }
    const bool by_output = most_labels == 0 && std::ssize(labels) == rows * outputs && outputs > 1;
    if (!labels.empty()) {
      inputs.push_back(
          tensor(labels, DataType::kInt32, by_output ? all : of_labels, exponents + 1));
    }
    if (!lengths.empty()) {
      inputs.push_back(tensor(lengths, DataType::kInt32, Shape{rows / places}, exponents + 1));
    }
    if (!targets.empty()) inputs.push_back(tensor(targets, DataType::kInt16, all, exponents + 2));
    if (!weights.empty()) {
      inputs.push_back(tensor(weights, DataType::kInt16, of_rows, exponents + 3));
    }
    std::vector<float> of_floats(logits.size(), 7.0F);
    std::vector<int16_t> of_integers(logits.size(), 0x5a5a);
    std::vector<Tensor> gradients(inputs.size());
    gradients[0] = floats ? tensor(of_floats, DataType::kFloat, all, exponents + 4)
                          : tensor(of_integers, DataType::kInt16, all, exponents + 4);
    int64_t saturated = 0;
    gradients[0].saturated = &saturated;
    const kernels::KernelTable table = kernels::select_kernels(isa);
    ThreadPool pool(threads);
    LossFound found;
    StepTotals totals;
    StepScalars scalars;
    OpContext c;
    c.node.attributes = &*attributes;
    c.inputs = inputs;
    c.grad_inputs = gradients;
    c.kernel.pool = &pool;
    c.kernel.table = &table;
    c.step.scalars = &scalars;
    c.step.totals = &totals;
    c.step.loss = &found.totals;
    const OpRows& row = floats ? *op.fp32 : op.integer;
    std::vector<Shape> shapes;
    for (const Tensor& input : inputs) shapes.push_back(input.shape);
    std::vector<int64_t> saved, workspace;
    if (row.memory != nullptr) {
      const OpMemory wanted =
          row.memory({.attributes = &*attributes, .inputs = shapes}, {&table, threads});
      const auto garbage = [](int64_t bytes) {
        return std::vector<int64_t>(static_cast<size_t>(bytes + 7) / 8, 0x5a5a5a5a5a5a5a5a);
      };
      saved = garbage(wanted.saved_bytes);
      workspace = garbage(
          std::max(wanted.forward.workspace_bytes, wanted.grad_input.workspace_bytes));
      c.memory.saved = reinterpret_cast<std::byte*>(saved.data());
      c.memory.workspace = reinterpret_cast<std::byte*>(workspace.data());
    }
    if (!floats && row.forward.prepare != nullptr) {
      const Prepared prepared = row.forward.prepare(c);
      c.kernel.prepared = prepared.get();
      row.forward.run(c);
      row.grad_input.run(c);
    } else {
      row.forward.run(c);
      row.grad_input.run(c);
    }
    EXPECT_FALSE(totals.exponent_overflow);
    found.loss = static_cast<double>(found.totals.loss_q24) * op.loss_unit;
    for (size_t i = 0; i < logits.size(); ++i) {
      found.gradient.push_back(floats ? of_floats[i] : std::ldexp(of_integers[i], exponents[4]));
    }
    return found;
  }
};

// The loss of a row without its weight, from its logits in double.
using LossDefinition = std::function<double(int64_t row, const std::vector<double>& logits)>;

// Loss and gradient against the definition and its central differences. Gradients have 16 bits.
inline void expect_definition(const LossRows& rows, const LossFound& found,
                              const LossDefinition& definition, double tolerance) {
  double loss = 0, largest = 0;
  for (const double each : found.gradient) largest = std::max(largest, std::abs(each));
  for (int64_t row = 0; row < rows.rows; ++row) {
    std::vector<double> logits;
    for (int64_t k = 0; k < rows.outputs; ++k) logits.push_back(rows.logit(row * rows.outputs + k));
    loss += definition(row, logits) * rows.weight(row);
    for (int64_t k = 0; k < rows.outputs; ++k) {
      constexpr double kStep = 1e-5;
      std::vector<double> above = logits, below = logits;
      above[k] += kStep;
      below[k] -= kStep;
      const double slope = (definition(row, above) - definition(row, below)) / (2 * kStep);
      EXPECT_NEAR(found.gradient[row * rows.outputs + k], slope * rows.weight(row),
                  tolerance + std::ldexp(largest, -15))
          << row << " " << k << " at " << logits[k];
    }
  }
  EXPECT_NEAR(found.loss, loss, tolerance * (1 + std::abs(loss)));
}

}  // namespace mantissa::testing
