#include "networks/folded_norms.h"

#include <algorithm>

#include "ops/attributes.h"
#include "ops/ops.h"

namespace mantissa {

std::vector<int> convolutions_without_norm(const Graph& network) {
  const auto readers = readers_of(network);
  std::vector<int> found;
  for (int n = 0; n < std::ssize(network.nodes); ++n) {
    const Node& node = network.nodes[n];
    if (node.op != &ops::kConvolution || !node.attributes.as<ops::LayerAttributes>().bias) continue;
    const int output = node.outputs[0];
    const Shape& shape = network.values[output].shape;
    const auto is_norm = [&](int reader) { return network.nodes[reader].op == &ops::kBatchNorm; };
    const bool has_norm = std::any_of(readers[output].begin(), readers[output].end(), is_norm);
    const bool is_map = shape.count() > shape.last();
    if (is_map && !has_norm && !network.is_output(output)) found.push_back(n);
  }
  return found;
}

std::string folded_norms_text(const Graph& network) {
  // Networks with norms of other kinds had no batch norms to fold.
  const auto is_norm = [](const Node& node) {
    return node.op == &ops::kBatchNorm || node.op == &ops::kGroupNorm ||
           node.op == &ops::kLayerNorm || node.op == &ops::kRmsNorm;
  };
  const size_t count = convolutions_without_norm(network).size();
  if (count < 2 || std::any_of(network.nodes.begin(), network.nodes.end(), is_norm)) return "";
  return std::to_string(count) +
         " convolutions have a bias, and the network has no batch norm: where an exporter folded "
         "norms into them, training and few bits cost much accuracy without (28 points in a case "
         "tried): --insert-batch-norm, of train --from MODEL.onnx and of import, puts them back";
}

}  // namespace mantissa
