#include "onnx/export/exporter.h"

#include <algorithm>
#include <utility>

#include "onnx/export/check_exported.h"
#include "onnx/export/inputs.h"
#include "onnx/export/operators.h"
#include "onnx/export/refusals.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// Whether the node hands its input's values on, so that its readers decide whether negatives
// matter.
bool passes_values_on(const Op* op) {
  return op == &ops::kMaxPool || op == &ops::kOverlappingMaxPool || op == &ops::kPad ||
         op == &ops::kReduceMax || op == &ops::kUpsample || op == &ops::kSlice ||
         op == &ops::kChannelShuffle || op == &ops::kDepthTaps || is_view(*op);
}

// By value. If only ReLUs read a value, directly or after maxima, zeros may replace negatives.
std::vector<bool> find_read_negatives(const Graph& graph,
                                      const std::vector<std::vector<int>>& readers) {
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

// A refused node of sequences still gets results of its shapes, so that the nodes after it are
// tried, too.
void pretend(ExportContext& context, const Node& node) {
  const Exported& in = context.input(node);
  if (in.is_mantissas()) return;
  const Side side = in.side;
  for (const int output : node.outputs) {
    const Value& value = context.graph.values[output];
    const Form form = value.shape.rank == 1 ? Form::kVector : Form::kRows;
    context.values[static_cast<size_t>(output)] =
        Exported{.name = value.name, .form = form, .side = side};
  }
}

// All nodes but losses. The result lists every node that cannot be exported, with the reason.
std::string export_nodes(ExportContext& context) {
  const Graph& graph = context.graph;
  NamesByText refused;  // by operator and reason
  for (int n = 0; n < std::ssize(graph.nodes); ++n) {
    const Node& node = graph.nodes[n];
    const bool reads_known = std::all_of(node.inputs.begin(), node.inputs.end(), [&](int value) {
      return context.values[static_cast<size_t>(value)].has_value();
    });
    if (graph.is_loss(n) || !reads_known) continue;
    auto exported = export_node(context, n);
    if (exported.ok()) {
      context.values[static_cast<size_t>(node.outputs[0])] = std::move(*exported);
      continue;
    }
    add_name(refused, std::string("(") + node.op->name + ") " + exported.error().message,
             node.name);
    pretend(context, node);
  }
  return refusal_text(refused);
}

// Inputs and nodes. An error lists everything that cannot be exported.
Status export_all(ExportContext& context) {
  std::string reasons = add_inputs(context);
  const auto add = [&](const std::string& more) {
    if (!more.empty()) reasons += (reasons.empty() ? "" : "; ") + more;
  };
  add(name_outputs(context));
  add(export_nodes(context));
  return reasons.empty() ? Status{} : invalid_input("cannot be exported: " + reasons);
}

// The versions of ONNX: 20 is the first operator set with Gelu, 21 the first with 4 bits.
void set_version(const ExportContext& context, ModelData& model) {
  const bool is_portable = context.target == ExportTarget::kPortable && !reads_sequences(context);
  const bool is_in_rows = reads_sequences(context) || !context.near.empty();
  model.ir_version = is_portable ? 10 : is_in_rows ? 9 : 8;
  model.opsets = {{"", is_portable ? 21 : is_in_rows ? 20 : 17}};
}

}  // namespace

Result<ExportedModel> export_network(const ExportedNetwork& network, ExportTarget target) {
  const Graph& graph = *network.graph;
  const auto readers = readers_of(graph);
  ExportContext context{.network = network,
                        .graph = graph,
                        .target = target,
                        .readers = readers,
                        .reads_negatives = find_read_negatives(graph, readers),
                        .values = {},
                        .outputs = {},
                        .builder = {},
                        .notes = {}};
  context.values.resize(graph.values.size());
  MANTISSA_RETURN_IF_ERROR(export_all(context));
  add_outputs(context);
  ExportedModel result;
  set_version(context, result.model);
  result.model.producer_name = "mantissa";
  result.model.graph = std::move(context.builder.graph);
  result.model.graph.name = graph.name;
  MANTISSA_RETURN_IF_ERROR(check_exported(result.model));
  result.notes = std::move(context.notes);
  result.is_near = !context.near.empty();
  if (result.is_near) {
    result.notes.push_back("results are near those of predict --raw, not equal: " +
                           refusal_text(context.near) +
                           "; all else is computed to the same bits");
  }
  return result;
}

}  // namespace mantissa::onnx
