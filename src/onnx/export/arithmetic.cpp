// Sums, products, ReLU, and the quantisation to few bits in front of a layer.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "onnx/export/operators.h"
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

// Whether a float32 step gives the same mantissas as the network for everything that `in` can be.
bool agrees(const ops::QuantiseSteps& steps, const Exported& in, float step) {
  for (int q = in.is_signed ? -in.most : 0; q <= in.most; ++q) {
    const float quotient = std::nearbyint(std::ldexp(static_cast<float>(q), in.exponent) / step);
    const auto found =
        std::clamp(quotient, static_cast<float>(steps.low()), static_cast<float>(steps.high()));
    if (found != static_cast<float>(steps.step(q))) return false;
  }
  return true;
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
  const bool any_signed = context.input(node, 0).is_signed || context.input(node, 1).is_signed;
  return quantised(context, n, context.builder.add("Mul", node.name + "/real", std::move(inputs)),
                   any_signed && is_signed(context, n));
}

// Values that cannot be negative stay as they are.
Result<Exported> export_relu(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  Exported out = context.input(node);
  if (!out.is_signed) return out;
  ExportBuilder& to = context.builder;
  out.name = to.add("Clip", context.output_name(node),
                    {out.name, to.byte(kSignedZero), to.byte(out.most_byte())});
  return out;
}

// The float32 step that gives the same mantissas for every input is near the quotient of range and
// levels; a quotient that is rounded twice may need its neighbour.
Result<Exported> export_quantise(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const Exported in = context.input(node);
  const ExportedParameter& range =
      context.network.parameters[static_cast<size_t>(node.parameters[0])];
  int16_t mantissa = 0;
  std::memcpy(&mantissa, range.numbers.data(), sizeof mantissa);
  if (node.attributes.is_set("offset")) {
    return invalid_input("has a grid with an offset, which is not exported");
  }
  const ops::QuantiseSteps steps(node.attributes, {mantissa, range.exponents[0]}, in.exponent);
  const auto nearest =
      static_cast<float>(steps.range().to_double() / static_cast<double>(steps.high()));
  const std::array candidates = {nearest, std::nextafter(nearest, 0.0f),
                                 std::nextafter(nearest, 2 * nearest)};
  const auto* step = std::find_if(candidates.begin(), candidates.end(),
                                  [&](float each) { return agrees(steps, in, each); });
  if (step == candidates.end()) {
    return invalid_input("has a range that no float32 scale gives to the same bits");
  }
  const Exported out{.name = context.output_name(node),
                     .exponent = static_cast<int>(node.attributes.whole("exponent")),
                     .most = static_cast<int>(steps.high()),
                     .is_signed = steps.low() < 0};
  const std::string tensor = real(context, in, node.name);
  quantise_to(context, tensor, context.builder.scalar(*step, node.name + "/step"), out);
  return out;
}

}  // namespace mantissa::onnx
