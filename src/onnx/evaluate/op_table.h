// The operators: which there are, in which operator sets, and what computes them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "onnx/evaluate/call.h"

namespace mantissa::onnx {

constexpr int kNewestOpset = 23;  // 22 and 23 brought types to operators that are read here

constexpr int kMany = INT32_MAX;

// How many inputs an operator has.
struct InputCount {
  int fewest, most;
  constexpr InputCount(int exactly) : fewest(exactly), most(exactly) {}
  constexpr InputCount(int least, int greatest) : fewest(least), most(greatest) {}
};

struct OpRow {
  const char* name;
  int since;  // the first operator set in which the row holds
  Status (*function)(OpCall& call);
  InputCount inputs = 1;
  const char* attributes = "";  // that it knows, with spaces between them
  int until = kNewestOpset;     // the last operator set
  int most_outputs = 1;
};

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
std::span<const OpRow> recurrent_operators();
std::span<const OpRow> reduction_operators();
std::span<const OpRow> resize_operators();
std::span<const OpRow> shape_operators();
std::span<const OpRow> softmax_operators();

// The row of a node, or the reason why there is none: the operator, its operator set, an attribute,
// the number of inputs or outputs.
Result<const OpRow*> find_operator(const NodeData& node, int64_t opset);

}  // namespace mantissa::onnx
