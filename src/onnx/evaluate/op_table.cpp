#include "onnx/evaluate/op_table.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "onnx/files/read_context.h"

namespace mantissa::onnx {
namespace {

using Table = std::unordered_multimap<std::string_view, const OpRow*>;

Table make_table() {
  Table table;
  for (const auto family :
       {attention_operators(), binary_operators(),          bit_operators(),
        cast_operators(),      constant_operators(),        convolution_operators(),
        crop_operators(),      einsum_operators(),          grid_operators(),
        index_operators(),     integer_product_operators(), loss_operators(),
        matrix_operators(),    microsoft_operators(),       normalisation_operators(),
        norm_operators(),      pooling_operators(),         quantisation_operators(),
        recurrent_operators(), reduction_operators(),       region_operators(),
        resize_operators(),    sequence_operators(),        set_operators(),
        shape_operators(),     signal_operators(),          slice_operators(),
        softmax_operators(),   unary_operators(),           unpool_operators()}) {
    for (const OpRow& row : family) table.emplace(row.name, &row);
  }
  return table;
}

const Table& operators() {
  static const Table table = make_table();
  return table;
}

bool knows_attribute(const OpRow& row, std::string_view name) {
  std::string_view left = row.attributes;
  while (!left.empty()) {
    const size_t end = std::min(left.find(' '), left.size());
    if (left.substr(0, end) == name) return true;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return false;
}

Status check_node(const NodeData& node, const OpRow& row) {
  for (const NodeAttribute& attribute : node.attributes) {
    if (knows_attribute(row, attribute.name)) continue;
    return invalid_input(describe("attribute", attribute.name) + " is not supported");
  }
  const auto inputs = static_cast<int64_t>(node.inputs.size());
  if (inputs < row.inputs.fewest || inputs > row.inputs.most) {
    return invalid_input(std::to_string(inputs) + " inputs");
  }
  for (int i = 0; i < row.inputs.fewest; ++i) {
    if (node.inputs[i].empty()) return invalid_input("input " + std::to_string(i) + " is left out");
  }
  if (node.outputs.empty()) return invalid_input("no output");
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (static_cast<int64_t>(i) < row.most_outputs || node.outputs[i].empty()) continue;
    return invalid_input("output " + std::to_string(i) + " is not supported");
  }
  return {};
}

}  // namespace

bool is_operator(std::string_view name) {
  constexpr std::array<std::string_view, 4> kControls = {"If", "Loop", "Scan", "SequenceMap"};
  return operators().contains(name) ||
         std::find(kControls.begin(), kControls.end(), name) != kControls.end();
}

const NodeAttribute* unknown_attribute(const NodeData& node) {
  const auto [first, last] = operators().equal_range(node.op_type);
  if (first == last || !node.domain.empty()) return nullptr;
  for (const NodeAttribute& attribute : node.attributes) {
    if (attribute.name == "consumed_inputs") continue;  // of the first operator sets, says nothing
    const bool is_known = std::any_of(first, last, [&](const auto& entry) {
      return knows_attribute(*entry.second, attribute.name);
    });
    if (!is_known) return &attribute;
  }
  return nullptr;
}

Result<const OpRow*> find_operator(const NodeData& node, int64_t opset) {
  const Table& table = operators();
  const std::string name = node.domain.empty() ? node.op_type : node.domain + "." + node.op_type;
  const auto [first, last] = table.equal_range(name);
  if (first == last) {
    return invalid_input(node.domain.empty() ? "no such operator is known here"
                                             : "an operator of " + describe("domain", node.domain));
  }
  for (auto row = first; row != last; ++row) {
    if (opset < row->second->since || opset > row->second->until) continue;
    MANTISSA_RETURN_IF_ERROR(check_node(node, *row->second));
    return row->second;
  }
  return invalid_input("not as in operator set " + std::to_string(opset));
}

}  // namespace mantissa::onnx
