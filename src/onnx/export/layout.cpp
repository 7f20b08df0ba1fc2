// Operators that move bytes and compute nothing. Images are [N, C, H, W] in the model and
// [H, W, C] here; vectors have our own order in both.
#include "onnx/export/operators.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// Whether the elements of an image lie in the same order with the channels first and last.
bool is_one_order(const Shape& image) { return image[2] == 1 || image[0] * image[1] == 1; }

// A value as a vector; `shape` is its own.
std::string flat(ExportContext& context, std::string tensor, const Shape& shape,
                 const std::string& name) {
  if (shape.rank == 3 && !is_one_order(shape)) {
    tensor = context.builder.add("Transpose", name + "/channels_last", {tensor},
                                 {ints("perm", {0, 2, 3, 1})});
  }
  return context.builder.add("Flatten", name, {tensor});
}

}  // namespace

Result<Exported> export_identity(ExportContext& context, int n) {
  return context.input(context.graph.nodes[n]);
}

Result<Exported> export_concat(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  std::vector<std::string> inputs;
  bool any_signed = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Exported& in = context.input(node, i);
    inputs.push_back(real(context, in, node.name + "/" + std::to_string(i)));
    any_signed = any_signed || in.is_signed();
  }
  return quantised(
      context, n,
      context.builder.add("Concat", node.name + "/real", std::move(inputs), {{"axis", int64_t{1}}}),
      any_signed && is_signed(context, n));
}

Result<Exported> export_flatten(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  Exported out = context.input(node);
  out.name = flat(context, out.name, context.shape(node.inputs[0]), context.output_name(node));
  return out;
}

Result<Exported> export_reshape(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Shape &from = context.shape(node.inputs[0]), &image = context.shape(node.outputs[0]);
  const std::string name = context.output_name(node);
  Exported out = context.input(node);
  if (image.rank == 1) {
    out.name = flat(context, out.name, from, name);
    return out;
  }
  ExportBuilder& to = context.builder;
  if (from.rank == 3) out.name = flat(context, out.name, from, name + "/vector");
  const bool one_order = is_one_order(image);
  const std::vector<int64_t> dims = one_order
                                        ? std::vector<int64_t>{0, image[2], image[0], image[1]}
                                        : std::vector<int64_t>{0, image[0], image[1], image[2]};
  out.name = to.add("Reshape", one_order ? name : name + "/channels_last",
                    {out.name, to.list(name + "/shape", dims)});
  if (!one_order) {
    out.name = to.add("Transpose", name, {out.name}, {ints("perm", {0, 3, 1, 2})});
  }
  return out;
}

Result<Exported> export_pad(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const auto side = [&](const char* name) { return node.attributes.whole(name); };
  ExportBuilder& to = context.builder;
  Exported out = context.input(node);
  const std::string sides = to.list(
      node.name + "/sides", {0, 0, side("top"), side("left"), 0, 0, side("bottom"), side("right")});
  out.name = to.add("Pad", context.output_name(node), {out.name, sides, to.byte(out.zero)});
  return out;
}

Result<Exported> export_slice(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  if (node.attributes.whole("position") >= 0) {
    return invalid_input("takes a position: of networks that read tokens alone that is exported");
  }
  const int64_t first = node.attributes.whole("first");
  ExportBuilder& to = context.builder;
  Exported out = context.input(node);
  out.name = to.add("Slice", context.output_name(node),
                    {out.name, to.list(node.name + "/first", {first}),
                     to.list(node.name + "/end", {first + node.attributes.whole("channels")}),
                     to.list(node.name + "/axis", {1})});
  return out;
}

// The channels as a matrix of `groups` rows, transposed.
Result<Exported> export_channel_shuffle(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Shape& shape = context.shape(node.outputs[0]);
  const int64_t groups = node.attributes.whole("groups"), channels = shape.last();
  ExportBuilder& to = context.builder;
  Exported out = context.input(node);
  std::vector<int64_t> rows = {0, groups, channels / groups}, back = {0, channels},
                       order = {0, 2, 1};
  if (shape.rank == 3) {
    rows.push_back(shape[0] * shape[1]);
    back.insert(back.end(), {shape[0], shape[1]});
    order.push_back(3);
  }
  const std::string matrix =
      to.add("Reshape", node.name + "/rows", {out.name, to.list(node.name + "/rows/shape", rows)});
  const std::string shuffled =
      to.add("Transpose", node.name + "/columns", {matrix}, {ints("perm", order)});
  out.name =
      to.add("Reshape", context.output_name(node), {shuffled, to.list(node.name + "/shape", back)});
  return out;
}

}  // namespace mantissa::onnx
