// Images resized by repetition and by linear interpolation.
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "onnx/export/operators.h"
#include "ops/attributes.h"
#include "ops/ops.h"
#include "ops/shapes/resize_taps.h"

namespace mantissa::onnx {
namespace {

bool is_power_of_two(int64_t number) { return std::has_single_bit(static_cast<uint64_t>(number)); }

// Whether float32 has all places and weights of the axis.
bool is_exact(const ops::ResizeAxis& axis, bool align_corners) {
  return is_power_of_two(axis.denominator) &&
         (align_corners || is_power_of_two(axis.in / std::gcd(axis.in, axis.out)));
}

// The factor of an axis for which the size of the result, which is rounded down, is right.
float factor_of(const ops::ResizeAxis& axis) {
  const auto in = static_cast<float>(axis.in), out = static_cast<float>(axis.out);
  float factor = out / in;
  while (std::floor(in * factor) < out) factor = std::nextafter(factor, 2 * factor);
  return factor;
}

}  // namespace

// Copies.
Result<Exported> export_upsample(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const auto [vertical, horizontal] =
      ops::upsample_factors(node.attributes.as<ops::UpsampleAttributes>(),
                            ops::is_sequence(context.shape(node.inputs[0])));
  ExportBuilder& to = context.builder;
  Exported out = context.input(node);
  const std::string scales = to.numbers<float>(
      node.name + "/scales", ElementType::kFloat, {4},
      {1, 1, static_cast<float>(vertical), static_cast<float>(horizontal)});
  out.name = to.add("Resize", context.output_name(node), {out.name, "", scales},
                    {{"mode", "nearest"},
                     {"coordinate_transformation_mode", "asymmetric"},
                     {"nearest_mode", "floor"}});
  return out;
}

// The sums of four numbers with their weights are exact in float32 if weights are multiples of a
// power of two, as of twice the size.
Result<Exported> export_bilinear_resize(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const auto& attributes = node.attributes.as<ops::ResizeAttributes>();
  const auto with_batch = [](const Shape& image) {
    return Shape{1, image[0], image[1], image[2]};
  };
  const Shape from = context.image_shape(node.inputs[0]),
              image = context.image_shape(node.outputs[0]);
  const ops::ResizeAxes axes = ops::resize_axes(attributes, with_batch(from), with_batch(image));
  const bool corners = attributes.align_corners;
  if (!is_exact(axes.vertical, corners) || !is_exact(axes.horizontal, corners)) {
    add_near(context, node, "has weights that float32 rounds");
  }
  ExportBuilder& to = context.builder;
  // Twice the numbers, and half of the results: ONNX Runtime would resize bytes itself, and round
  // otherwise.
  Exported twice = context.input(node);
  if (twice.form == Form::kBytes) ++twice.exponent;
  const std::vector<float> factors = {1, 1, factor_of(axes.vertical), factor_of(axes.horizontal)};
  const std::string resized = to.add(
      "Resize", node.name + "/resized",
      {real(context, twice, node.name), "",
       to.numbers(node.name + "/scales", ElementType::kFloat, {4}, factors)},
      {{"mode", "linear"},
       {"coordinate_transformation_mode", corners ? "align_corners" : "half_pixel"}});
  if (twice.form == Form::kWide) return quantised(context, n, resized);
  return quantised(context, n, to.add("Mul", node.name + "/real", {resized, to.power(-1)}));
}

}  // namespace mantissa::onnx
