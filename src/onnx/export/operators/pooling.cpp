// Maxima and means.
#include <cmath>

#include "onnx/export/inputs.h"
#include "onnx/export/operators.h"
#include "onnx/export/volumes.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "ops/pooling/pool_axes.h"

namespace mantissa::onnx {
namespace {

std::vector<NodeAttribute> windows(const ExportContext& context, const Node& node, bool ceil) {
  const auto [vertical, horizontal] =
      ops::pool_axes(node.attributes.as<ops::PoolAttributes>(),
                     ops::is_sequence(context.shape(node.inputs[0])));
  return {
      ints("kernel_shape", {vertical.window, horizontal.window}),
      ints("strides", {vertical.stride, horizontal.stride}),
      ints("pads", {vertical.padding, horizontal.padding, vertical.padding, horizontal.padding}),
      {"ceil_mode", int64_t{ceil ? 1 : 0}}};
}

bool is_over_depth(const Node& node) {
  return node.attributes.as<ops::PoolAttributes>().over == ops::PooledAxes::kDepth;
}

// The tensor of the node's input that its windows lie in. Windows over the depth see a volume as an
// image [D, H * W, C].
std::string pooled(ExportContext& context, const Node& node, const std::string& tensor) {
  if (!is_over_depth(node)) return tensor;
  const Shape& volume = context.shape(node.inputs[0]);
  return volume_as_image(context, tensor, volume, volume[0], node.name + "/depth");
}

// A pool of that tensor, as the node's output has it.
std::string add_pool(ExportContext& context, const Node& node, const char* op,
                     const std::string& name, const std::string& tensor,
                     std::vector<NodeAttribute> attributes) {
  const bool over_depth = is_over_depth(node);
  const std::string pool = context.builder.add(op, over_depth ? name + "/over_depth" : name,
                                               {tensor}, std::move(attributes));
  if (!over_depth) return pool;
  return image_as_volume(context, pool, context.shape(node.outputs[0]), name);
}

// ONNX Runtime's integer kernel refuses images, and quotients of scales, beyond these bounds.
Status check_mean(float input_scale, float output_scale, int64_t pixels) {
  constexpr int64_t kMostPixels = int64_t{1} << 24;
  const float factor = input_scale / (output_scale * static_cast<float>(pixels));
  if (pixels < kMostPixels && factor >= 0x1p-32F && factor < 256) return {};
  return invalid_input("has scales whose quotient ONNX Runtime refuses");
}

}  // namespace

// Bytes have the order of mantissas: nothing is quantised.
Result<Exported> export_max_pool(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const bool ceil =
      node.op == &ops::kOverlappingMaxPool && node.attributes.as<ops::PoolAttributes>().ceil;
  Exported out = context.input(node);
  out.name = add_pool(context, node, "MaxPool", context.output_name(node),
                      pooled(context, node, out.name), windows(context, node, ceil));
  return out;
}

// A window over all of an axis: MaxPool takes bytes. Channels lie behind the positions for it.
Result<Exported> export_reduce_max(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Shape shape = whole_shape(context.shape(node.inputs[0]));
  if (context.shape(node.inputs[0]).rank < 3) {
    return invalid_input("is a maximum of something else than a picture");
  }
  const ops::ReducedAxes over = node.attributes.as<ops::ReduceAttributes>().over;
  const int64_t height = shape[0], width = shape[1], channels = shape[2];
  ExportBuilder& to = context.builder;
  Exported out = whole_input(context, node);
  const std::string name = context.output_name(node);
  const auto maximum = [&](const std::string& result, const std::string& from, int64_t rows,
                           int64_t columns) {
    return to.add("MaxPool", result, {from}, {ints("kernel_shape", {rows, columns})});
  };
  if (over == ops::ReducedAxes::kPositions) {
    const std::string largest = maximum(name + "/largest", out.name, height, width);
    out.name = to.add("Flatten", name, {largest});
  } else if (over == ops::ReducedAxes::kChannels) {
    const std::string turned =
        to.add("Transpose", name + "/turned", {out.name}, {ints("perm", {0, 2, 3, 1})});
    const std::string largest = maximum(name + "/largest", turned, 1, channels);
    out.name = to.add("Transpose", name, {largest}, {ints("perm", {0, 3, 1, 2})});
  } else {
    const bool rows = over == ops::ReducedAxes::kHeight;
    out.name = maximum(name, out.name, rows ? height : 1, rows ? 1 : width);
  }
  return out;
}

Result<Exported> export_average_pool(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  if (node.attributes.as<ops::PoolAttributes>().ceil) {
    return invalid_input("has windows that end beyond the image (ceil)");
  }
  std::vector<NodeAttribute> attributes = windows(context, node, false);
  attributes.push_back({"count_include_pad",
                        int64_t{node.attributes.as<ops::PoolAttributes>().count_padding ? 1 : 0}});
  const Exported in = context.input(node);
  if (in.form == Form::kWide || node.op == &ops::kAveragePool) {
    add_near(context, node, "is computed in float32");
  }
  const std::string input = pooled(context, node, real(context, in, node.name));
  return quantised(context, n,
                   add_pool(context, node, "AveragePool", node.name + "/real", input,
                            std::move(attributes)),
                   in.is_signed());
}

Result<Exported> export_global_average(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Exported in = whole_input(context, node);
  const std::string input = real(context, in, node.name);
  Exported out =
      quantised(context, n, context.builder.add("GlobalAveragePool", node.name + "/real", {input}),
                in.is_signed());
  const Shape image = whole_shape(context.shape(node.inputs[0]));
  MANTISSA_RETURN_IF_ERROR(check_mean(std::ldexp(1.0F, in.exponent), std::ldexp(1.0F, out.exponent),
                                      image[0] * image[1]));
  out.name = context.builder.add("Flatten", out.name + "/vector", {out.name});
  return out;
}

// Here padding counts, too; in the model there is as much of it as its user likes.
Result<Exported> export_row_mean(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Exported& in = context.input(node);
  if (in.form != Form::kRows) return invalid_input("is no mean over positions");
  if (has_padding(context, in.side)) return invalid_input("is a mean that counts padding");
  ExportBuilder& to = context.builder;
  return Exported{to.add("ReduceMean", context.output_name(node),
                         {in.name, to.list("sequence_axis", {1})}, {{"keepdims", int64_t{0}}}),
                  Form::kVector};
}

}  // namespace mantissa::onnx
