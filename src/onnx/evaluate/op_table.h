// The operators: their names, their operator sets, and the functions that compute them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "onnx/evaluate/call.h"

namespace mantissa::onnx {

// Operator sets 22 to 28 added types to operators that are supported here. If a set changed more,
// the operator has its own row.
constexpr int kNewestOpset = 28;

constexpr int kMany = INT32_MAX;

// How many inputs an operator has.
struct InputCount {
  int fewest, most;
  constexpr InputCount(int exactly) : fewest(exactly), most(exactly) {}
  constexpr InputCount(int least, int greatest) : fewest(least), most(greatest) {}
};

struct OpRow {
  const char* name;  // of other domains than ONNX's own: "com.microsoft.QLinearAdd"
  int since;         // the first operator set of the row
  Status (*function)(OpCall& call);
  InputCount inputs = 1;
  const char* attributes = "";  // that it knows, with spaces between them
  int until = kNewestOpset;     // the last operator set
  int most_outputs = 1;
  bool takes_sequences = false;  // and optional values, beside tensors
};

std::span<const OpRow> attention_operators();
std::span<const OpRow> binary_operators();
std::span<const OpRow> bit_operators();
std::span<const OpRow> cast_operators();
std::span<const OpRow> constant_operators();
std::span<const OpRow> convolution_operators();
std::span<const OpRow> crop_operators();
std::span<const OpRow> einsum_operators();
std::span<const OpRow> grid_operators();
std::span<const OpRow> index_operators();
std::span<const OpRow> integer_product_operators();
std::span<const OpRow> loss_operators();
std::span<const OpRow> matrix_operators();
std::span<const OpRow> microsoft_operators();
std::span<const OpRow> normalisation_operators();
std::span<const OpRow> norm_operators();
std::span<const OpRow> pooling_operators();
std::span<const OpRow> quantisation_operators();
std::span<const OpRow> recurrent_operators();
std::span<const OpRow> reduction_operators();
std::span<const OpRow> region_operators();
std::span<const OpRow> resize_operators();
std::span<const OpRow> sequence_operators();
std::span<const OpRow> set_operators();
std::span<const OpRow> shape_operators();
std::span<const OpRow> signal_operators();
std::span<const OpRow> slice_operators();
std::span<const OpRow> softmax_operators();
std::span<const OpRow> unary_operators();
std::span<const OpRow> unpool_operators();

// The operator set of a node: its own, or the model's.
inline int64_t opset_of(const NodeData& node, int64_t of_model) {
  return node.opset > 0 ? node.opset : of_model;
}

// Whether some operator set has an operator of this name, of ONNX's own domain, that is known here.
bool is_operator(std::string_view name);

// An attribute of the node that its operator does not have in any operator set. Null: there is
// none, or the operator is not known here.
const NodeAttribute* unknown_attribute(const NodeData& node);

// The row of a node, or the reason why there is none: the operator, its operator set, an attribute,
// the number of inputs or outputs.
Result<const OpRow*> find_operator(const NodeData& node, int64_t opset);

}  // namespace mantissa::onnx
