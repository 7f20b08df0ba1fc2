#include "networks/language/block_network.h"

#include <map>
#include <utility>

#include "graph/rebuild.h"
#include "ops/ops.h"

namespace mantissa {

Result<Graph> with_weight_blocks(const Graph& graph,
                                 const std::function<BlockKind(int parameter)>& kind_of) {
  const auto name_blocks = [&](GraphBuilder&, int n, std::vector<int>&, Attributes& attributes) {
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    if (node.op != &ops::kLinear && node.op != &ops::kEmbedding) return;
    const BlockKind kind = kind_of(node.parameters[0]);
    if (kind == BlockKind::kNone) return;
    std::vector<Attributes::Item> items = attributes.items();
    std::erase_if(items, [](const auto& item) { return item.first == "weight_blocks"; });
    items.emplace_back("weight_blocks", std::string(block_kind_name(kind)));
    attributes = Attributes(std::move(items));
  };
  return rebuilt(graph, {.before = name_blocks});
}

std::string describe_blocks(const Graph& graph) {
  std::map<BlockKind, int64_t> tensors;
  int64_t weights = 0, bytes = 0;
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.storage != Storage::kBlocks) continue;
    ++tensors[parameter.blocks];
    weights += parameter.shape.count();
    bytes += bytes_in_blocks(parameter.blocks, parameter.shape.count());
  }
  std::string text;
  for (const auto& [kind, count] : tensors) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " of " + block_kind_name(kind);
  }
  if (text.empty()) return text;
  return text + "; " + std::to_string(weights) + " weights in " + std::to_string(bytes) + " bytes";
}

}  // namespace mantissa
