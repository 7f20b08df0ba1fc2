// Sums, products, ReLU, and the quantisation to few bits in front of a layer.
#include <cstdlib>
#include <cstring>

#include "onnx/export/operators.h"
#include "onnx/export/quantise_scale.h"
#include "ops/ops.h"
#include "ops/quantise_steps.h"

namespace mantissa::onnx {
namespace {

// The float32 tensors of both inputs.
std::vector<std::string> both(ExportContext& context, const Node& node) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < 2; ++i) {
    inputs.push_back(real(context, context.input(node, i), node.name + "/" + std::to_string(i)));
  }
  return inputs;
}

ops::GridNumber grid_number(const ExportContext& context, const Node& node, size_t i) {
  const ExportedParameter& from =
      context.network.parameters[static_cast<size_t>(node.parameters[i])];
  int16_t mantissa = 0;
  std::memcpy(&mantissa, from.numbers.data(), sizeof mantissa);
  return {mantissa, from.exponents[0]};
}

// The steps as a look-up: exact for every range, and slower than QuantizeLinear.
void look_up_steps(ExportContext& context, const Node& node, const ops::QuantiseSteps& steps,
                   const Exported& out) {
  const int zero = context.input(node).zero;
  std::vector<uint8_t> table;
  for (int byte = 0; byte <= UINT8_MAX; ++byte) {
    table.push_back(static_cast<uint8_t>(steps.step(byte - zero) + out.zero));
  }
  look_up(context, node, 1, table, out);
  context.notes.push_back("'" + node.name +
                          "' is a look-up: no float32 scale gives its range to the same bits");
}

}  // namespace

Result<Exported> export_add(ExportContext& context, int n) {
  constexpr int kMostDistance = 16;  // from there on one of the two is rounded first
  const Node& node = context.graph.nodes[n];
  const int distance = context.input(node, 0).exponent - context.input(node, 1).exponent;
  if (std::abs(distance) > kMostDistance) {
    return invalid_input("adds values whose units differ by more than 2^16");
  }
  std::vector<std::string> inputs = both(context, node);
  return quantised(context, n, context.builder.add("Add", node.name + "/real", std::move(inputs)));
}

// Products of mantissas are exact in float32. A gate, one factor for each channel of an image, is
// [N, C, 1, 1].
Result<Exported> export_multiply(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Shape &image = context.shape(node.inputs[0]), &gate = context.shape(node.inputs[1]);
  std::vector<std::string> inputs = both(context, node);
  if (gate.rank < image.rank) {
    ExportBuilder& to = context.builder;
    inputs[1] = to.add("Reshape", node.name + "/gate",
                       {inputs[1], to.list(node.name + "/gate/shape", {0, gate[0], 1, 1})});
  }
  const bool any_signed = context.input(node, 0).is_signed() || context.input(node, 1).is_signed();
  return quantised(context, n, context.builder.add("Mul", node.name + "/real", std::move(inputs)),
                   any_signed && is_signed(context, n));
}

// Values that cannot be negative stay as they are.
Result<Exported> export_relu(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  Exported out = context.input(node);
  if (!out.is_signed()) return out;
  ExportBuilder& to = context.builder;
  out.name = to.add("Clip", context.output_name(node),
                    {out.name, to.byte(out.zero), to.byte(out.most_byte())});
  return out;
}

// A grid with an offset has its lowest step as byte 0, so that the offset is the zero point.
Result<Exported> export_quantise(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Exported in = context.input(node);
  const bool has_offset = node.attributes.is_set("offset");
  const ops::QuantiseSteps steps(node.attributes, grid_number(context, node, 0), in.exponent,
                                 has_offset ? grid_number(context, node, 1) : ops::GridNumber{});
  const auto low = static_cast<int>(steps.low());
  const Exported out{.name = context.output_name(node),
                     .exponent = static_cast<int>(node.attributes.whole("exponent")),
                     .least = low,
                     .most = static_cast<int>(steps.high()),
                     .zero = node.attributes.is_set("signed") ? kSignedZero : -low};
  const auto scale = quantise_scale(steps, {in.least, in.most, in.exponent});
  if (!scale) {
    look_up_steps(context, node, steps, out);
    return out;
  }
  const std::string tensor = real(context, in, node.name);
  quantise_to(context, tensor, context.builder.scalar(*scale, node.name + "/step"), out);
  return out;
}

}  // namespace mantissa::onnx
