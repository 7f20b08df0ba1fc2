// Functions and norms of sequences that are more than one of ONNX's operators, or have attributes.
#include "graph/op.h"
#include "onnx/export/context.h"
#include "onnx/export/sequences/operators.h"

namespace mantissa::onnx {
namespace {

// A node with the form of the node's first input.
SequenceValue with_form(const SequenceContext& context, const Node& node, std::string tensor) {
  return {std::move(tensor), context.input(node).form};
}

}  // namespace

Result<SequenceValue> export_hard_sigmoid(SequenceContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  return with_form(
      context, node,
      context.builder.add("HardSigmoid", output_name(context, node), {context.input(node).name},
                          {{"alpha", 1.0F / 6}, {"beta", 0.5F}}));
}

Result<SequenceValue> export_leaky_relu(SequenceContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Attributes slope = lowered(node);
  const auto alpha = static_cast<float>(static_cast<double>(slope.whole("numerator")) /
                                        static_cast<double>(slope.whole("denominator")));
  return with_form(context, node,
                   context.builder.add("LeakyRelu", output_name(context, node),
                                       {context.input(node).name}, {{"alpha", alpha}}));
}

Result<SequenceValue> export_relu6(SequenceContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  ExportBuilder& to = context.builder;
  const std::string zero = to.scalar(0, "zero"), six = to.scalar(6, "six");
  return with_form(
      context, node,
      to.add("Clip", output_name(context, node), {context.input(node).name, zero, six}));
}

Result<SequenceValue> export_silu(SequenceContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  ExportBuilder& to = context.builder;
  const std::string& in = context.input(node).name;
  const std::string gate = to.add("Sigmoid", node.name + "/gate", {in});
  return with_form(context, node, to.add("Mul", output_name(context, node), {in, gate}));
}

Result<SequenceValue> export_layer_norm(SequenceContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const std::string scale = real_parameter(context, node.parameters[0]);
  const std::string offset = real_parameter(context, node.parameters[1]);
  return with_form(
      context, node,
      context.builder.add("LayerNormalization", output_name(context, node),
                          {context.input(node).name, scale, offset},
                          {{"axis", int64_t{-1}},
                           {"epsilon", static_cast<float>(node.attributes.real("epsilon"))}}));
}

Result<SequenceValue> export_rms_norm(SequenceContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  ExportBuilder& to = context.builder;
  const std::string &in = context.input(node).name, &name = node.name;
  const std::string squares = to.add("Mul", name + "/squares", {in, in});
  const std::string mean =
      to.add("ReduceMean", name + "/mean", {squares, to.list("last_axis", {-1})});
  const std::string epsilon =
      to.scalar(static_cast<float>(node.attributes.real("epsilon")), name + "/epsilon");
  const std::string shifted = to.add("Add", name + "/shifted", {mean, epsilon});
  const std::string root = to.add("Sqrt", name + "/root", {shifted});
  const std::string normed = to.add("Div", name + "/normed", {in, root});
  const std::string scale = real_parameter(context, node.parameters[0]);
  return with_form(context, node, to.add("Mul", output_name(context, node), {normed, scale}));
}

}  // namespace mantissa::onnx
