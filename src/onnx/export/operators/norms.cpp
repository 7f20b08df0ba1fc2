// Norms of rows, and of groups of an image's channels, in float32.
#include <string>
#include <vector>

#include "onnx/export/operators.h"
#include "onnx/export/parameters.h"
#include "onnx/export/rows.h"
#include "ops/attributes.h"

namespace mantissa::onnx {
namespace {

// The rows with a dimension more, for the heads; as they are if there is one head.
std::string divided_by_heads(ExportContext& context, const Node& node) {
  const Exported& in = context.input(node);
  const int64_t heads = node.attributes.as<ops::RowNormAttributes>().heads;
  if (heads == 1) return in.name;
  ExportBuilder& to = context.builder;
  return to.add("Reshape", node.name + "/heads",
                {in.name, to.list(node.name + "/heads/shape",
                                  {0, 0, heads, context.shape(node.inputs[0]).last() / heads})});
}

// The node's result, of rows that divided_by_heads gave.
Result<Exported> with_joined_heads(ExportContext& context, const Node& node, const char* op,
                                   std::vector<std::string> inputs,
                                   std::vector<NodeAttribute> attributes = {}) {
  const bool is_whole = node.attributes.as<ops::RowNormAttributes>().heads == 1;
  ExportBuilder& to = context.builder;
  const std::string name = is_whole ? context.output_name(node) : node.name + "/of_heads";
  std::string result = to.add(op, name, std::move(inputs), std::move(attributes));
  if (!is_whole) {
    result = to.add("Reshape", context.output_name(node),
                    {result, to.list(node.name + "/joined",
                                     {0, 0, context.shape(node.inputs[0]).last()})});
  }
  return with_form(context, node, std::move(result));
}

// Heads are a dimension of sequences; an image has another one already.
Status check_heads(const ExportContext& context, const Node& node) {
  const bool is_whole = node.attributes.as<ops::RowNormAttributes>().heads == 1;
  const Shape& shape = context.shape(node.inputs[0]);
  const bool is_sequence = shape.rank == 2 || (shape.rank == 3 && shape[0] == 1);
  if (is_whole || is_sequence) return {};
  return invalid_input("has heads, and is exported for sequences only");
}

}  // namespace

Result<Exported> export_row_layer_norm(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  MANTISSA_RETURN_IF_ERROR(check_heads(context, node));
  const std::string scale = real_parameter(context, node.parameters[0]);
  const std::string offset = real_parameter(context, node.parameters[1]);
  return with_joined_heads(
      context, node, "LayerNormalization", {divided_by_heads(context, node), scale, offset},
      {{"axis", int64_t{-1}},
       {"epsilon", static_cast<float>(node.attributes.as<ops::RowNormAttributes>().epsilon)}});
}

// The numbers of a group as one channel: each is normalised by itself. Then scale and offset.
Result<Exported> export_group_norm(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const auto& attributes = node.attributes.as<ops::GroupNormAttributes>();
  add_near(context, node, "is computed in float32");
  ExportBuilder& to = context.builder;
  const std::string& name = node.name;
  const Shape& shape = context.shape(node.outputs[0]);
  const Shape image = context.image_shape(node.outputs[0]);
  const int64_t groups = attributes.groups, channels = shape.last();
  const bool is_vector = shape.rank == 1;
  const std::string numbers = real(context, context.input(node), name);
  const std::string rows =
      to.add("Reshape", name + "/groups",
             {numbers, to.list(name + "/groups/shape", {0, groups, -1})});
  const auto constant = [&](const char* what, float number) {
    return to.numbers(name + what, ElementType::kFloat, {groups},
                      std::vector<float>(static_cast<size_t>(groups), number));
  };
  const std::string normed =
      to.add("InstanceNormalization", name + "/normed",
             {rows, constant("/ones", 1), constant("/zeros", 0)},
             {{"epsilon", static_cast<float>(attributes.epsilon)}});
  const std::vector<int64_t> dims =
      is_vector ? std::vector<int64_t>{0, channels}
                : std::vector<int64_t>{0, channels, image[0], image[1]};
  const std::string back =
      to.add("Reshape", name + "/image", {normed, to.list(name + "/shape", dims)});
  const auto by_channel = [&](int parameter) {
    std::vector<int64_t> sizes = {channels};
    if (!is_vector) sizes.insert(sizes.end(), {1, 1});
    return to.numbers(context.graph.parameters[parameter].name, ElementType::kFloat, sizes,
                      real_numbers(context, parameter));
  };
  const std::string scaled =
      to.add("Mul", name + "/scaled", {back, by_channel(node.parameters[0])});
  return quantised(context, n,
                   to.add("Add", name + "/real", {scaled, by_channel(node.parameters[1])}));
}

Result<Exported> export_row_rms_norm(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  MANTISSA_RETURN_IF_ERROR(check_heads(context, node));
  ExportBuilder& to = context.builder;
  const std::string in = divided_by_heads(context, node), &name = node.name;
  const std::string squares = to.add("Mul", name + "/squares", {in, in});
  const std::string mean =
      to.add("ReduceMean", name + "/mean", {squares, to.list("last_axis", {-1})});
  const std::string epsilon = to.scalar(
      static_cast<float>(node.attributes.as<ops::RowNormAttributes>().epsilon), name + "/epsilon");
  const std::string shifted = to.add("Add", name + "/shifted", {mean, epsilon});
  const std::string root = to.add("Sqrt", name + "/root", {shifted});
  const std::string normed = to.add("Div", name + "/normed", {in, root});
  const std::string scale = real_parameter(context, node.parameters[0]);
  return with_joined_heads(context, node, "Mul", {normed, scale});
}

}  // namespace mantissa::onnx
