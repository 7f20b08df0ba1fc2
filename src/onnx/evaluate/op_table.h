// The operators: which there are, in which operator sets, and what computes them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "onnx/evaluate/call.h"

namespace mantissa::onnx {

constexpr int64_t kNewestOpset = 21;

struct OpRow {
  const char* name;
  int since;  // operator sets in which the row holds
  int until;
  int fewest_inputs;
  int most_inputs;
  int most_outputs;
  const char* attributes;  // that it knows, with spaces between them
  Status (*function)(OpCall& call);
};

constexpr int kMany = INT32_MAX;

std::span<const OpRow> unary_operators();
std::span<const OpRow> binary_operators();
std::span<const OpRow> cast_operators();
std::span<const OpRow> constant_operators();
std::span<const OpRow> convolution_operators();
std::span<const OpRow> index_operators();
std::span<const OpRow> matrix_operators();
std::span<const OpRow> normalisation_operators();
std::span<const OpRow> slice_operators();
std::span<const OpRow> pooling_operators();
std::span<const OpRow> quantisation_operators();
std::span<const OpRow> reduction_operators();
std::span<const OpRow> resize_operators();
std::span<const OpRow> shape_operators();
std::span<const OpRow> softmax_operators();

// The row of a node, or the reason why there is none: the operator, its operator set, an attribute,
// the number of inputs or outputs.
Result<const OpRow*> find_operator(const NodeData& node, int64_t opset);

}  // namespace mantissa::onnx
