#include "infer/text/decoded_part.h"

#include <algorithm>

#include "graph/op.h"
#include "ops/attributes.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

// Whether the node can compute new positions from the growing values and its cache.
bool goes_on(const Node& node, const std::vector<bool>& grows) {
  const auto input_grows = [&](int input) { return grows[input]; };
  const bool all_grow = std::all_of(node.inputs.begin(), node.inputs.end(), input_grows);
  if (node.op == &ops::kAttention && node.attributes.as<ops::AttentionAttributes>().cross) {
    return !input_grows(node.inputs[1]) && !input_grows(node.inputs[2]);
  }
  if (!all_grow) return false;  // such as lengths: the rest is not of one row
  if (node.op == &ops::kAttention) return node.attributes.as<ops::AttentionAttributes>().causal;
  if (node.op == &ops::kSlice && node.attributes.as<ops::SliceAttributes>().position >= 0)
    return false;
  const bool is_recurrent =
      node.op == &ops::kRnn || node.op == &ops::kLstm || node.op == &ops::kGru;
  return is_recurrent || node.op->traits.row_by_row;
}

}  // namespace

std::optional<std::vector<int>> values_given_to_decoder(const Graph& network, int tokens) {
  std::vector<bool> grows(network.values.size(), false);
  grows[tokens] = true;
  std::vector<int> given;
  for (int n = 0; n < std::ssize(network.nodes); ++n) {
    const Node& node = network.nodes[n];
    const bool is_decoded =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](int v) { return grows[v]; });
    if (!is_decoded || network.is_loss(n)) continue;
    if (!goes_on(node, grows)) return std::nullopt;
    for (const int output : node.outputs) grows[output] = true;
    for (const int input : node.inputs) {
      const bool is_computed = network.values[input].producer >= 0;
      const bool is_new = std::find(given.begin(), given.end(), input) == given.end();
      if (!grows[input] && is_computed && is_new) given.push_back(input);
    }
  }
  return given;
}

}  // namespace mantissa
