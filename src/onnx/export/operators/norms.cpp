// Norms of rows.
#include <string>

#include "onnx/export/operators.h"
#include "onnx/export/parameters.h"
#include "onnx/export/rows.h"
#include "ops/attributes.h"

namespace mantissa::onnx {

Result<Exported> export_row_layer_norm(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const std::string scale = real_parameter(context, node.parameters[0]);
  const std::string offset = real_parameter(context, node.parameters[1]);
  return with_form(
      context, node,
      context.builder.add(
          "LayerNormalization", context.output_name(node),
          {context.input(node).name, scale, offset},
          {{"axis", int64_t{-1}},
           {"epsilon", static_cast<float>(node.attributes.as<ops::RowNormAttributes>().epsilon)}}));
}

Result<Exported> export_row_rms_norm(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  ExportBuilder& to = context.builder;
  const std::string &in = context.input(node).name, &name = node.name;
  const std::string squares = to.add("Mul", name + "/squares", {in, in});
  const std::string mean =
      to.add("ReduceMean", name + "/mean", {squares, to.list("last_axis", {-1})});
  const std::string epsilon = to.scalar(
      static_cast<float>(node.attributes.as<ops::RowNormAttributes>().epsilon), name + "/epsilon");
  const std::string shifted = to.add("Add", name + "/shifted", {mean, epsilon});
  const std::string root = to.add("Sqrt", name + "/root", {shifted});
  const std::string normed = to.add("Div", name + "/normed", {in, root});
  const std::string scale = real_parameter(context, node.parameters[0]);
  return with_form(context, node, to.add("Mul", context.output_name(node), {normed, scale}));
}

}  // namespace mantissa::onnx
