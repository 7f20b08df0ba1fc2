#include "onnx/export/context.h"

#include <algorithm>
#include <utility>

#include "onnx/export/wide.h"
#include "ops/attributes.h"
#include "ops/convolutions/convolution_bytes.h"
#include "ops/ops.h"

namespace mantissa::onnx {

std::string ExportContext::output_name(const Node& node) const {
  const std::string& name = graph.values[node.outputs[0]].name;
  const auto& inputs = builder.graph.inputs;
  const bool is_taken =
      std::find(outputs.begin(), outputs.end(), name) != outputs.end() ||
      std::any_of(inputs.begin(), inputs.end(),
                  [&](const ValueData& input) { return input.name == name; });
  return is_taken || in_rows ? name + (in_rows ? "/of_rows" : "/value") : name;
}

std::string ExportContext::result_name(int value) const {
  const auto found = std::find(graph.outputs.begin(), graph.outputs.end(), value);
  return found == graph.outputs.end() ? "" : outputs[found - graph.outputs.begin()];
}

void add_near(ExportContext& context, const Node& node, const std::string& why) {
  add_name(context.near, std::string("(") + node.op->name + ") " + why, node.name);
}

NodeAttribute ints(const char* name, std::vector<int64_t> values) {
  return {name, std::move(values)};
}

bool is_relu6(const Node& node) {
  const bool is_rescaled =
      node.op == &ops::kRescaledConvolution || node.op == &ops::kRescaledLinear;
  return is_rescaled && node.attributes.as<ops::LayerAttributes>().relu6;
}

bool is_signed(const ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  return context.reads_negatives[node.outputs[0]] && !context.network.applies_relu[n] &&
         !is_relu6(node);
}

std::string real(ExportContext& context, const Exported& value, const std::string& reader) {
  if (value.form != Form::kBytes) return value.name;
  ExportBuilder& to = context.builder;
  return to.add("DequantizeLinear", value.name + "/" + reader,
                {value.name, to.power(value.exponent), to.byte(value.zero)});
}

void quantise_to(ExportContext& context, const std::string& tensor, const std::string& scale,
                 const Exported& out) {
  ExportBuilder& to = context.builder;
  const std::string wide =
      to.add("QuantizeLinear", out.name + "/unclipped", {tensor, scale, to.byte(out.zero)});
  to.add("Clip", out.name, {wide, to.byte(out.least_byte()), to.byte(out.most_byte())});
}

Exported quantised(ExportContext& context, int n, const std::string& tensor,
                   std::optional<bool> sign) {
  const Node& node = context.graph.nodes[n];
  const int value = node.outputs[0];
  Exported out = exported_value(context.output_name(node), context.exponent(value),
                                context.limit(value), sign.value_or(is_signed(context, n)));
  if (is_relu6(node)) out.most = ops::largest_of_relu6(out.exponent, out.most);
  if (out.form == Form::kWide) {
    round_to(context, tensor, out);
  } else {
    quantise_to(context, tensor, context.builder.power(out.exponent), out);
  }
  return out;
}

}  // namespace mantissa::onnx
