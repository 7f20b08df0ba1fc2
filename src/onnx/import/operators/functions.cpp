// Functions of one value, and nodes that leave values unchanged.
#include <algorithm>
#include <cmath>

#include "onnx/import/operators.h"
#include "onnx/import/rows.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// Whether f(k x) = k f(x), for positive k, as those of pixels; those of rows may be negative.
bool takes_factors(const Op& op, Form form) {
  if (&op == &ops::kDropout) return true;
  return form == Form::kImage && (&op == &ops::kRelu || &op == &ops::kLeakyRelu);
}

Status add_leaky(ImportContext& context, const NodeData& node, double slope) {
  if (slope >= 0 && slope <= 1) {
    return add_elementwise(context, node, ops::kLeakyRelu, {{"slope", slope}});
  }
  return invalid_input("has a slope of " + std::to_string(slope) + "; 0 to 1 is possible");
}

Status pass_on(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  define(context, node.outputs[0], std::move(value));
  return {};
}

}  // namespace

Status add_elementwise(ImportContext& context, const NodeData& node, const Op& op,
                       const Attributes& attributes, std::vector<std::vector<double>> numbers) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  const bool stays_scaled = value.scale.empty() || takes_factors(op, value.form);
  if (!stays_scaled && value.form == Form::kRows) {
    MANTISSA_ASSIGN(value, plain_input(context, node, 0));
  } else if (!stays_scaled) {
    const bool is_last = turn_channels_first(value);
    MANTISSA_ASSIGN(const int image, images_of(context, value));
    define_image(context, node.outputs[0], image);
    value = context.values[node.outputs[0]];
    turn_back(is_last, value);
  }
  MANTISSA_ASSIGN(value.value,
                  add_node(context, op, node_name(context, node), {value.value}, attributes,
                           std::move(numbers)));
  define(context, node.outputs[0], std::move(value));
  return {};
}

Status import_leaky_relu(ImportContext& context, const NodeData& node) {
  return add_leaky(context, node, real_of(node, "alpha", 0.01));
}

namespace {

Status add_elu(ImportContext& context, const NodeData& node, double alpha) {
  if (alpha >= 0 && alpha <= 2) {
    return add_elementwise(context, node, ops::kElu, {{"alpha", alpha}});
  }
  return invalid_input("has an alpha of " + std::to_string(alpha) + "; 0 to 2 is possible");
}

}  // namespace

Status import_elu(ImportContext& context, const NodeData& node) {
  return add_elu(context, node, real_of(node, "alpha", 1));
}

// ELU of x / alpha, times alpha.
Status import_celu(ImportContext& context, const NodeData& node) {
  if (real_of(node, "alpha", 1) == 1) return add_elu(context, node, 1);
  return invalid_input("has another alpha than 1; ELU, which has a factor, can be imported");
}

// ELU times a factor, which the next layer takes in.
Status import_selu(ImportContext& context, const NodeData& node) {
  MANTISSA_RETURN_IF_ERROR(add_elu(context, node, real_of(node, "alpha", 1.67326319217681884766)));
  Imported& value = context.values[node.outputs[0]];
  const int64_t channels = value.form == Form::kRows ? 1 : value.layout.dims()[0];
  value.scale.assign(static_cast<size_t>(channels), real_of(node, "gamma", 1.05070102214813232422));
  return {};
}

namespace {

// The only slope, or nothing.
Result<std::optional<double>> only_slope(const ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const TensorData* tensor, weights_of(context, node, 1));
  MANTISSA_ASSIGN(const std::vector<double> slopes, numbers_of(*tensor));
  return slopes.size() == 1 ? std::optional(slopes[0]) : std::nullopt;
}

Status add_shared_slope(ImportContext& context, const NodeData& node, double slope) {
  return add_elementwise(context, node, ops::kPrelu, {{"shared", 1}}, {{slope}});
}

// Of channels, which are the last dimension of the graph's value.
Result<int> add_slopes(ImportContext& context, const NodeData& node, int value,
                       const Channels& channels) {
  const TensorData& tensor = *constant_of(context, node, 1);
  auto slopes = per_channel(tensor, channels);
  if (!slopes) return invalid_input("has not one slope, or one for each channel");
  return add_node(context, ops::kPrelu, layer_name(context, node, tensor), {value}, {},
                  {std::move(*slopes)});
}

}  // namespace

Status import_prelu(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const std::optional<double> shared, only_slope(context, node));
  if (shared) return add_shared_slope(context, node, *shared);
  MANTISSA_ASSIGN(Imported value, input_of(context, node, 0));
  const auto rank = std::ssize(value.layout.dims()) + 1;
  if (rank == 2) {
    MANTISSA_ASSIGN(const Vector vector, vector_of(context, value));
    if (!vector.places.empty()) return invalid_input("has slopes for pixels that were flattened");
    const int64_t channels = context.builder.shape(vector.value).last();
    MANTISSA_ASSIGN(value.value, add_slopes(context, node, vector.value, {channels, rank}));
    define_image(context, node.outputs[0], value.value);
    return {};
  }
  const bool is_last = turn_channels_first(value);
  MANTISSA_ASSIGN(const int image, images_of(context, value));
  const int64_t channels = context.builder.shape(image).last();
  MANTISSA_ASSIGN(const int result,
                  add_slopes(context, node, image, {channels, rank, is_last ? rank - 1 : 1}));
  define_image(context, node.outputs[0], result);
  turn_back(is_last, context.values[node.outputs[0]]);
  return {};
}

Status import_row_prelu(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const std::optional<double> shared, only_slope(context, node));
  if (shared) return add_shared_slope(context, node, *shared);
  MANTISSA_ASSIGN(Imported value, plain_input(context, node, 0));
  MANTISSA_ASSIGN(const int64_t channels, channels_of(context, value));
  const auto rank = std::ssize(value.layout.dims());
  MANTISSA_ASSIGN(value.value, add_slopes(context, node, value.value, {channels, rank, rank - 1}));
  define(context, node.outputs[0], std::move(value));
  return {};
}

Status import_clip(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const auto least, scalar_of(context, node, 1, "min"));
  MANTISSA_ASSIGN(const auto most, scalar_of(context, node, 2, "max"));
  const bool from_zero = least && *least == 0;
  if (from_zero && most && *most == 6) return add_elementwise(context, node, ops::kRelu6);
  if (from_zero && (!most || *most > 1e30)) return add_elementwise(context, node, ops::kRelu);
  return invalid_input("clips to other limits than 0 and 6, or 0 and infinity");
}

Status import_hard_sigmoid(ImportContext& context, const NodeData& node) {
  const HardSigmoid hard = hard_sigmoid_of(node);
  if (hard.is_ours() || context.fitted.contains(&node)) {
    return add_elementwise(context, node, ops::kHardSigmoid);
  }
  MANTISSA_ASSIGN(const Imported input, input_of(context, node, 0));
  MANTISSA_ASSIGN(const int image, images_of(context, input));
  const auto channels = static_cast<size_t>(context.builder.shape(image).last());
  MANTISSA_ASSIGN(const int fitted, scaled(context, new_name(context, "fit"), image,
                                           std::vector<double>(channels, 6 * hard.alpha),
                                           std::vector<double>(channels, 6 * (hard.beta - 0.5))));
  MANTISSA_ASSIGN(const int value,
                  add_node(context, ops::kHardSigmoid, node_name(context, node), {fitted}));
  define_image(context, node.outputs[0], value);
  return {};
}

Status import_gelu(ImportContext& context, const NodeData& node) {
  const bool is_tanh = text_of(node, "approximate", "none") == "tanh";
  return add_elementwise(context, node, is_tanh ? ops::kGeluTanh : ops::kGelu);
}

Status import_dropout(ImportContext& context, const NodeData& node) {
  if (scores_of(context, node, 0) != nullptr) return drop_scores(context, node);
  MANTISSA_ASSIGN(const auto ratio, scalar_of(context, node, 1, "ratio"));
  const double probability = ratio.value_or(0.5);
  if (!(probability >= 0 && probability < 1)) {
    return invalid_input("drops a part of " + std::to_string(probability) +
                         "; from 0 to below 1 is possible");
  }
  if (probability == 0) return pass_on(context, node);
  return add_elementwise(context, node, ops::kDropout, {{"probability", probability}});
}

Status import_identity(ImportContext& context, const NodeData& node) {
  return pass_on(context, node);
}

Status import_cast(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const Imported value, input_of(context, node, 0));
  const int64_t to = whole_of(node, "to", 0);
  const auto type =
      to < 0 || to > UINT8_MAX ? ElementType::kUndefined : static_cast<ElementType>(to);
  if (context.builder.graph().values[value.value].element == Element::kIndex) {
    if (type == ElementType::kInt64 || type == ElementType::kInt32) return pass_on(context, node);
    return invalid_input(std::string("casts tokens to ") + element_name(type));
  }
  for (const ElementType real :
       {ElementType::kFloat, ElementType::kFloat16, ElementType::kBfloat16, ElementType::kDouble}) {
    if (type == real) return pass_on(context, node);
  }
  return invalid_input(std::string("casts to ") + element_name(type));
}

}  // namespace mantissa::onnx
