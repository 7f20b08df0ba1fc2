#include "onnx/export/exporter.h"

#include <algorithm>
#include <utility>

#include "onnx/export/check_exported.h"
#include "onnx/export/each_node.h"
#include "onnx/export/operators.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// Whether the node hands its input's values on, so that its readers decide whether negatives
// matter.
bool passes_values_on(const Op* op) {
  return op == &ops::kMaxPool || op == &ops::kOverlappingMaxPool || op == &ops::kPad ||
         op == &ops::kSlice || op == &ops::kChannelShuffle || op->traits.view;
}

// By value. If only ReLUs read a value, directly or after maxima, zeros may replace negatives.
std::vector<bool> find_read_negatives(const Graph& graph) {
  const auto readers = readers_of(graph);
  std::vector<bool> reads(graph.values.size(), false);
  for (int value = static_cast<int>(graph.values.size()) - 1; value >= 0; --value) {
    reads[value] = graph.is_output(value);
    for (const int reader : readers[value]) {
      const Node& node = graph.nodes[reader];
      const bool minds =
          passes_values_on(node.op) ? bool{reads[node.outputs[0]]} : node.op != &ops::kRelu;
      if (minds) reads[value] = true;
    }
  }
  return reads;
}

Result<Exported> export_node(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  if (context.network.skipped[n] && node.op->traits.is_relu) return context.input(node);
  const ExportFunction function = export_function(node.op);
  if (function != nullptr) return function(context, n);
  return invalid_input("has no form that ONNX Runtime computes to the same bits");
}

// All nodes; an error lists those that cannot be exported.
Status export_nodes(ExportContext& context) {
  if (context.graph.values[context.graph.inputs[0]].element == Element::kNumber) {
    return invalid_input(
        "cannot be exported: it reads numbers, as those of tables, and only networks of pictures "
        "have such files; eval and predict take the network as it is");
  }
  for (const int input : context.graph.inputs) {
    context.values[static_cast<size_t>(input)] = Exported{.name = kPixels};
  }
  const std::string reasons = export_each(context, export_node);
  return reasons.empty() ? Status{} : invalid_input("cannot be exported: " + reasons);
}

Status add_ends(ExportContext& context) {
  const Graph& graph = context.graph;
  ExportBuilder& to = context.builder;
  const Value& pixels = graph.values[graph.inputs[0]];
  if (pixels.type != DataType::kUint8 || pixels.shape.rank != 3) {
    return invalid_input("cannot be exported: it reads no pictures");
  }
  const Shape& image = pixels.shape;
  to.graph.inputs.push_back({kPixels,
                             ElementType::kUint8,
                             true,
                             {{-1, "N"}, {image[2], ""}, {image[0], ""}, {image[1], ""}}});
  const Exported& logits = *context.values[static_cast<size_t>(graph.outputs[0])];
  if (!logits.is_real) {
    to.add("DequantizeLinear", kLogits,
           {logits.name, to.power(logits.exponent), to.byte(logits.zero)});
  }
  to.graph.outputs.push_back(
      {kLogits, ElementType::kFloat, true, {{-1, "N"}, {graph.classes(), ""}}});
  return {};
}

}  // namespace

Result<ExportedModel> export_network(const ExportedNetwork& network, ExportTarget target) {
  const Graph& graph = *network.graph;
  ExportContext context{network, graph, target, {}, {}, find_read_negatives(graph), {}};
  context.values.resize(graph.values.size());
  MANTISSA_RETURN_IF_ERROR(export_nodes(context));
  MANTISSA_RETURN_IF_ERROR(add_ends(context));
  const bool is_portable = target == ExportTarget::kPortable;
  ExportedModel result;
  result.model.ir_version = is_portable ? 10 : 8;
  result.model.opsets = {{"", is_portable ? 21 : 17}};
  result.model.producer_name = "mantissa";
  result.model.graph = std::move(context.builder.graph);
  result.model.graph.name = graph.name;
  MANTISSA_RETURN_IF_ERROR(check_exported(result.model));
  result.notes = std::move(context.notes);
  return result;
}

}  // namespace mantissa::onnx
