#include "tflite/exporter.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "ops/image_shape.h"
#include "ops/ops.h"
#include "tflite/export_context.h"

namespace mantissa::tflite {
namespace {

struct ExportRow {
  const Op* op;
  ExportFunction write;
};
constexpr ExportRow kRows[] = {
    {&ops::kNormaliseInput, export_pixels},
    {&ops::kRescaledConvolution, export_convolution},
    {&ops::kRescaledLinear, export_linear},
    {&ops::kAddHalfUp, export_add},
    {&ops::kMaxPool, export_max_pool},
    {&ops::kOverlappingMaxPool, export_max_pool},
    {&ops::kRelu, export_relu},
    {&ops::kConcat, export_concat},
    {&ops::kFlatten, export_reshape},
    {&ops::kReshape, export_reshape},
    {&ops::kPad, export_pad},
    {&ops::kIdentity, export_nothing},
    {&ops::kWiden, export_nothing},
};

Result<Exported> export_node(ExportContext& context, int n) {
  const Op* const op = context.node(n).op;
  if (ops::is_volume(context.shape(context.node(n).outputs[0]))) {
    return invalid_input("makes a volume [D, H, W, C], and this form has pictures; export to ONNX");
  }
  const auto* row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const auto& r) { return r.op == op; });
  if (row == std::end(kRows)) {
    return invalid_input("has no form that computes the same bits in every runtime");
  }
  return row->write(context, n);
}

}  // namespace

Result<ModelData> export_network(const ExportedNetwork& network) {
  const Graph& graph = *network.graph;
  ExportContext context{.network = network, .graph = graph, .values = {}, .model = {}};
  context.values.resize(graph.values.size());
  context.model.name = graph.name;
  for (int n = 0; n < std::ssize(graph.nodes); ++n) {
    const Node& node = graph.nodes[n];
    if (graph.is_loss(n)) continue;
    // A ReLU that its input applies.
    const bool is_applied = node.op == &ops::kRelu &&
                            network.canonical[node.inputs[0]] == network.canonical[node.outputs[0]];
    auto exported = is_applied ? export_nothing(context, n) : export_node(context, n);
    if (!exported.ok()) {
      return invalid_input("cannot be exported: node '" + node.name + "' (" + node.op->name + ") " +
                           exported.error().message);
    }
    context.values[node.outputs[0]] = std::move(*exported);
  }
  const int output = context.values[graph.outputs[0]]->tensor;
  context.model.tensors[static_cast<size_t>(output)].name = "logits";
  context.model.outputs = {output};
  return std::move(context.model);
}

}  // namespace mantissa::tflite
