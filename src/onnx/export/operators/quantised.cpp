// The quantisation to few bits in front of a layer. Of rows, the results are multiples of the
// grid's steps: before the layer, QuantizeLinear rounds to these. Scales after the layer are
// float32.
#include <cmath>
#include <string>

#include "onnx/export/operators.h"
#include "onnx/export/parameters.h"
#include "onnx/export/quantise_scale.h"
#include "ops/attributes.h"
#include "ops/quantise_steps.h"

namespace mantissa::onnx {
namespace {

ops::QuantiseSteps steps_of(const ExportContext& context, const Node& node, int input_exponent) {
  const auto number = [&](size_t i) -> ops::GridNumber {
    const ExportedParameter& from = context.numbers(node.parameters[i]);
    return {number_at<int16_t>(from, 0), from.exponents[0]};
  };
  const auto& attributes = node.attributes.as<ops::QuantiseAttributes>();
  return {attributes, number(0), input_exponent, attributes.offset ? number(1) : ops::GridNumber{}};
}

// The steps as a look-up: exact for every range, and slower than QuantizeLinear.
void look_up_steps(ExportContext& context, const Node& node, const ops::QuantiseSteps& steps,
                   const Exported& out) {
  const TableRange range = table_range(context.input(node));
  std::vector<int64_t> mantissas;
  for (int64_t q = range.first; q <= range.last; ++q) mantissas.push_back(steps.step(q));
  look_up(context, node, 1, mantissas, out);
  context.notes.push_back("'" + node.name +
                          "' is a look-up: no float32 scale gives its range to the same bits");
}

}  // namespace

// A grid with an offset has its lowest step as byte 0, so that the offset is the zero point.
Result<Exported> export_quantise(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Exported in = context.input(node);
  const ops::QuantiseSteps steps = steps_of(context, node, in.exponent);
  const auto low = static_cast<int>(steps.low());
  const auto& attributes = node.attributes.as<ops::QuantiseAttributes>();
  const Exported out{.name = context.output_name(node),
                     .exponent = attributes.exponent,
                     .least = low,
                     .most = static_cast<int>(steps.high()),
                     .zero = attributes.is_signed ? kSignedZero : -low};
  const auto scale = quantise_scale(steps, {in.least, in.most, in.exponent});
  if (!scale) {
    look_up_steps(context, node, steps, out);
    return out;
  }
  const std::string tensor = real(context, in, node.name);
  quantise_to(context, tensor, context.builder.scalar(*scale, node.name + "/step"), out);
  return out;
}

// From one grid of the network to another.
Result<Exported> export_requantised(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  return quantised(context, n, real(context, context.input(node), node.name));
}

Result<Exported> export_row_quantise(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  if (is_real(context.numbers(node.parameters[0]))) {
    return invalid_input("is in float: files in float have no few bits");
  }
  const int any_exponent = 0;  // the ends of the grid are the same for each of the input
  const ops::QuantiseSteps steps = steps_of(context, node, any_exponent);
  const int exponent = node.attributes.as<ops::QuantiseAttributes>().exponent;
  const double unit = std::ldexp(1.0, exponent);
  ExportBuilder& to = context.builder;
  const std::string name = context.output_name(node);
  const std::string factor = to.scalar(
      static_cast<float>(static_cast<double>(steps.levels()) * unit / steps.range().to_double()),
      node.name + "/factor");
  const std::string scaled = to.add("Mul", name + "/scaled", {context.input(node).name, factor});
  const auto end = [&](int64_t step, const char* what) {
    return to.scalar(static_cast<float>(static_cast<double>(step) * unit), node.name + what);
  };
  Exported result = context.input(node);
  result.name =
      to.add("Clip", name, {scaled, end(steps.low(), "/low"), end(steps.high(), "/high")});
  return result;
}

}  // namespace mantissa::onnx
