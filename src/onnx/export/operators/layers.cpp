// The inputs, convolutions and linear layers.
#include <algorithm>
#include <cmath>
#include <utility>

#include "onnx/export/operators.h"
#include "onnx/export/rows.h"
#include "onnx/export/volumes.h"
#include "onnx/export/weights.h"
#include "onnx/export/wide.h"
#include "ops/attributes.h"
#include "ops/convolutions/convolution_shape.h"
#include "ops/convolutions/transposed_shape.h"
#include "ops/ops.h"
#include "ops/pixels.h"

namespace mantissa::onnx {
namespace {

constexpr int64_t kExactSums = int64_t{1} << 24;

// ONNX wants [C, O / groups, H, W], the channels of a group together. The file has [C / groups, O,
// H, W] in integers, where each output channel may have its own scale.
std::string by_group(ExportContext& context, const Node& node, const LayerNumbers& layer,
                     const std::string& weights) {
  const int64_t groups = node.op == &ops::kTransposedConvolution
                             ? node.attributes.as<ops::TransposedAttributes>().groups
                             : 1;
  if (groups == 1) return weights;
  ExportBuilder& to = context.builder;
  const std::string name = weights + "/groups_" + std::to_string(groups);
  if (to.makes(name)) return name;
  const std::vector<int64_t>& dims = layer.dims;
  const int64_t of_group = dims[1] / groups, taps = dims[2] * dims[3];
  const std::string apart =
      to.add("Reshape", name + "/apart",
             {weights, to.list(name + "/apart/shape", {dims[0], groups, of_group, taps})});
  const std::string first =
      to.add("Transpose", name + "/first", {apart}, {ints("perm", {1, 0, 2, 3})});
  return to.add("Reshape", name,
                {first, to.list(name + "/shape", {groups * dims[0], of_group, dims[2], dims[3]})});
}

// The float32 tensor of the layer's weights. Layers that share them also share it.
std::string weights(ExportContext& context, const Node& node, const LayerNumbers& layer) {
  const Parameter& weights = context.graph.parameters[node.parameters[0]];
  std::string name = real_weights(weights);
  if (context.builder.makes(name)) return name;
  const auto& nodes = context.graph.nodes;
  const auto uses = std::count_if(nodes.begin(), nodes.end(), [&](const Node& other) {
    return !other.parameters.empty() && other.parameters[0] == node.parameters[0];
  });
  const bool in_float = layer.is_transposed || context.input(node).form != Form::kBytes;
  const bool is_depthwise = !layer.is_transposed && weights.shape.rank == 4 &&
                            weights.shape[3] == 1 &&
                            node.attributes.as<ops::LayerAttributes>().groups > 1;
  const int most_input = uses > 1 ? UINT8_MAX : context.input(node).most_byte();
  const WeightsForm form =
      weights_form(layer, context.target, is_depthwise || in_float ? 0 : most_input);
  if (form.type == ElementType::kUint8) {
    context.notes.push_back("layer '" + node.name +
                            "' has unsigned weights, so that CPUs without VNNI do not saturate");
  }
  return add_weights(context.builder, weights, layer, form);
}

std::string bias(ExportContext& context, const Node& node, const LayerNumbers& layer) {
  ExportBuilder& to = context.builder;
  const std::string name = node.name + ".bias";
  std::vector<float> scales = layer.scales;
  for (float& scale : scales) scale = std::ldexp(scale, context.input(node).exponent);
  to.numbers(name, ElementType::kInt32, {layer.channels}, layer.bias);
  if (layer.has_one_scale()) {
    return to.add("DequantizeLinear", name + "/real",
                  {name, to.scalar(scales[0], name + "/scale")});
  }
  return to.add("DequantizeLinear", name + "/real",
                {name, to.numbers(name + "/scales", ElementType::kFloat, {layer.channels}, scales)},
                {{"axis", int64_t{0}}});
}

// Values, weights and, if there is one, the bias.
std::vector<std::string> inputs_of(ExportContext& context, const Node& node,
                                   const LayerNumbers& layer) {
  std::string from = by_group(context, node, layer, weights(context, node, layer));
  std::vector<std::string> inputs = {real(context, context.input(node), node.name),
                                     std::move(from)};
  if (!layer.bias.empty()) inputs.push_back(bias(context, node, layer));
  return inputs;
}

// The file has weights in the form of one kind of layer: of vectors, or of positions.
Status check_readers(const ExportContext& context, const Node& node) {
  const auto form_of = [&](const Node& layer) {
    return std::pair(layer.op == &ops::kTransposedConvolution,
                     context.shape(layer.inputs[0]).rank > 1);
  };
  for (const Node& other : context.graph.nodes) {
    const bool shares = !other.parameters.empty() && other.parameters[0] == node.parameters[0];
    if (!shares || form_of(other) == form_of(node)) continue;
    return invalid_input("shares its weights with '" + other.name +
                         "', which reads another kind of value");
  }
  return {};
}

Result<LayerNumbers> numbers_of(ExportContext& context, const Node& node) {
  if (context.network.by_channel[static_cast<size_t>(node.outputs[0])]) {
    return invalid_input("makes a value with an exponent for each channel");
  }
  const Exported& in = context.input(node);
  MANTISSA_ASSIGN(LayerNumbers layer, layer_numbers(context.network, node,
                                                    {in.exponent, context.exponent(node.outputs[0]),
                                                     std::max(in.most, -in.least)}));
  MANTISSA_RETURN_IF_ERROR(check_readers(context, node));
  if (in.form == Form::kWide && (layer.is_rescaled || layer.most_sum >= kExactSums)) {
    add_near(context, node, "multiplies values of 16 bits in float32");
  } else if (layer.is_rescaled && context.limit(node.outputs[0]) > kMostOfBytes) {
    add_near(context, node, "makes values of 16 bits in float32");
  } else if (!layer.is_rescaled && layer.most_sum >= kExactSums) {
    context.notes.push_back("layer '" + node.name + "' may have sums of 2^24 and more (" +
                            std::to_string(layer.most_sum) + "), which float32 rounds");
  }
  return layer;
}

// Columns as the network takes them: (x - mean) / deviation in its unit, rounded in float64 as the
// network's own tables are; missing ones are 0.
std::string standardised(ExportContext& context, const Node& node,
                         const std::vector<InputColumn>& of_input, int exponent) {
  ExportBuilder& to = context.builder;
  const std::string& columns = context.input(node).name;
  const int64_t count = context.shape(node.inputs[0]).count();
  std::vector<double> means, deviations;
  for (const InputColumn& column : of_input) {
    means.push_back(column.mean);
    deviations.push_back(column.deviation);
  }
  const auto constant = [&](const char* what, const std::vector<double>& numbers) {
    return to.numbers(node.name + what, ElementType::kDouble, {count}, numbers);
  };
  const std::string centred =
      to.add("Sub", node.name + "/centred",
             {as_double(context, columns), constant("/means", means)});
  const std::string units =
      to.add("Div", node.name + "/deviated", {centred, constant("/deviations", deviations)});
  const std::string whole = rounded_product(context, units, 1, exponent, node.name + "/standard");
  const std::string missing = to.add("IsNaN", node.name + "/missing", {columns});
  return to.add("Where", node.name + "/present", {missing, to.scalar(0, "zero"), whole});
}

// An operator on images whose results are the layer's sums.
struct SumOperator {
  const char* name;
  std::vector<NodeAttribute> attributes;
};

// The layer's output: its sums, rounded unless only losses read them.
Result<Exported> image_layer(ExportContext& context, int n, const LayerNumbers& layer,
                             SumOperator with) {
  const Node& node = context.graph.nodes[n];
  const bool stays_wide = context.network.is_wide[static_cast<size_t>(node.outputs[0])];
  if (stays_wide && !layer.has_one_scale()) {
    return invalid_input("makes logits from weights with an exponent for each channel");
  }
  const Shape& shape = context.shape(node.outputs[0]);
  const bool is_row = ops::is_sequence(shape), is_volume = ops::is_volume(shape);
  const std::string result = context.result_name(node.outputs[0]);
  const bool is_result = stays_wide && !result.empty() && !is_row && !is_volume;
  std::vector<std::string> inputs = inputs_of(context, node, layer);
  std::string sums =
      context.builder.add(with.name, is_result ? result : node.name + "/real",
                          std::move(inputs), std::move(with.attributes));
  if (!stays_wide) return quantised(context, n, sums);
  if (is_row) {
    ExportBuilder& to = context.builder;
    sums = to.add("Squeeze", node.name + "/sequence", {sums, to.list("row_axis", {2})});
  }
  if (is_volume) sums = volume_as_result(context, sums, shape, node.name + "/volume");
  return Exported{std::move(sums), Form::kVector};
}

}  // namespace

// Pixels less their means, in units of 1/64.
Result<Exported> export_pixels(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  ExportBuilder& to = context.builder;
  const int64_t channels = context.shape(node.outputs[0]).last();
  const auto all = ops::pixel_means(node.attributes.as<ops::InputAttributes>());
  const std::vector<float> means(all.begin(), all.begin() + channels);
  const std::string floats =
      to.cast(node.name + "/float", context.input(node).name, ElementType::kFloat);
  const std::string mean =
      to.numbers(node.name + "/means", ElementType::kFloat, {1, channels, 1, 1}, means);
  const std::string centred = to.add("Sub", node.name + "/centred", {floats, mean});
  const std::string unit =
      to.scalar(std::ldexp(1.0f, -ops::kPixelExponent), node.name + "/pixels_per_unit");
  return quantised(context, n, to.add("Div", node.name + "/units", {centred, unit}), true);
}

// Numbers as whole multiples of their unit, as 16 bits hold them; then as the format has them.
Result<Exported> export_numbers(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Value& input = context.graph.values[node.inputs[0]];
  ExportBuilder& to = context.builder;
  std::string numbers = context.input(node).name;
  const auto columns = context.network.columns.find(input.name);
  if (columns != context.network.columns.end()) {
    numbers = standardised(context, node, columns->second, input.exponent);
  }
  if (ops::is_sequence(input.shape)) {
    numbers = to.add("Unsqueeze", node.name + "/row", {numbers, to.list("row_axis", {2})});
  } else if (ops::is_volume(input.shape)) {
    numbers = volume_of_input(context, numbers, input.shape, node.name + "/images");
  }
  const std::string wide =
      to.add("Div", node.name + "/wide", {numbers, to.power(input.exponent)});
  const std::string whole = to.add("Round", node.name + "/whole", {wide});
  const std::string clipped =
      to.clip(node.name + "/clipped", whole, static_cast<float>(INT16_MAX), "most_16_bits");
  return quantised(context, n,
                   to.add("Mul", node.name + "/units", {clipped, to.power(input.exponent)}), true);
}

Result<Exported> export_convolution(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  MANTISSA_ASSIGN(const LayerNumbers layer, numbers_of(context, node));
  const auto& a = node.attributes.as<ops::LayerAttributes>();
  const Shape& shape = context.graph.parameters[node.parameters[0]].shape;
  const auto [vertical, horizontal] =
      ops::convolution_axes(a, ops::is_sequence(context.shape(node.inputs[0])));
  const int64_t right = a.causal ? 0 : horizontal.padding;
  const int64_t dilation = shape[1] > 1 || shape[2] > 1 ? a.dilation : 1;
  return image_layer(
      context, n, layer,
      {"Conv",
       {ints("kernel_shape", {shape[1], shape[2]}),
        ints("strides", {vertical.stride, horizontal.stride}),
        ints("pads", {vertical.padding, horizontal.padding, vertical.padding, right}),
        ints("dilations", {dilation, dilation}),
        {"group", a.groups}}});
}

// In float32, which has the sums below 2^24: there is no operator of integers.
Result<Exported> export_transposed_convolution(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const auto& attributes = node.attributes.as<ops::TransposedAttributes>();
  MANTISSA_ASSIGN(const LayerNumbers layer, numbers_of(context, node));
  const auto [vertical, horizontal] =
      ops::transposed_axes(attributes,
                           ops::is_sequence(context.shape(node.inputs[0])));
  SumOperator sums = {
      "ConvTranspose",
      {ints("kernel_shape", {vertical.kernel, horizontal.kernel}),
       ints("strides", {vertical.stride, horizontal.stride}),
       ints("pads", {vertical.padding, horizontal.padding, vertical.padding, horizontal.padding}),
       ints("output_padding", {vertical.output_padding, horizontal.output_padding})}};
  if (attributes.groups > 1) sums.attributes.push_back({"group", attributes.groups});
  return image_layer(context, n, layer, std::move(sums));
}

// A linear layer over positions is a convolution with windows of one.
Result<Exported> export_linear(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  if (feeds_gates_alone(context, node.outputs[0])) return context.input(node);
  MANTISSA_ASSIGN(const LayerNumbers layer, numbers_of(context, node));
  if (context.shape(node.inputs[0]).rank > 1) {
    return image_layer(context, n, layer, {"Conv", {ints("kernel_shape", {1, 1})}});
  }
  const bool stays_wide = context.network.is_wide[static_cast<size_t>(node.outputs[0])];
  if (stays_wide && !layer.has_one_scale()) {
    return invalid_input("makes logits from weights with an exponent for each channel");
  }
  std::vector<std::string> inputs = inputs_of(context, node, layer);
  const std::string result = context.result_name(node.outputs[0]);
  const bool is_result = stays_wide && !result.empty();
  std::string sums = context.builder.add("Gemm", is_result ? result : node.name + "/real",
                                         std::move(inputs), {{"transB", int64_t{1}}});
  if (stays_wide) return Exported{std::move(sums), Form::kVector};
  return quantised(context, n, sums);
}

}  // namespace mantissa::onnx
