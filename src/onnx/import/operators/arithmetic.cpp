// Sums and products of two values, of an image and a constant for each channel, and of rows and a
// constant for each element, or one for all.
#include <algorithm>
#include <utility>

#include "onnx/import/operators.h"
#include "onnx/import/rows.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// A value with separate dimensions for channels, height and width.
Imported as_image(const Imported& value) {
  Imported image = value;
  const std::vector<int64_t> dims = value.layout.dims();
  if (dims.size() == 1) image.layout.reshape(std::vector<int64_t>{dims[0], 1, 1});
  return image;
}

// factor * value + summand, of numbers per channel.
Status add_affine(ImportContext& context, const NodeData& node, size_t value_index,
                  const TensorData& tensor, double factor, double summand_factor) {
  MANTISSA_ASSIGN(Imported value, input_of(context, node, value_index));
  const bool is_last = turn_channels_first(value);
  const std::vector<int64_t> dims = value.layout.dims();
  if (dims.empty()) return invalid_input("wants an input with channels");
  const auto numbers = per_channel(tensor, {dims[0], std::ssize(dims) + 1, is_last ? 3 : 1});
  if (!numbers) return invalid_input("its constant is not one number, or one for each channel");
  std::vector<double> scale;
  MANTISSA_ASSIGN(const int image, images_of(context, as_image(value), &scale));
  const auto channels = static_cast<size_t>(dims[0]);
  std::vector<double> factors(channels, factor), summands;
  if (summand_factor == 0) {
    factors = *numbers;
  } else {
    for (const double number : *numbers) summands.push_back(summand_factor * number);
  }
  for (size_t c = 0; c < scale.size(); ++c) factors[c] *= scale[c];
  MANTISSA_ASSIGN(const int result,
                  scaled(context, node_name(context, node), image, factors, summands,
                         is_parameter(context, &tensor)));
  define_image(context, node.outputs[0], result);
  Imported& imported = context.values[node.outputs[0]];
  imported.layout.reshape(dims);
  turn_back(is_last, imported);
  return {};
}

// For two values with the same layout, element by element.
Status add_elements(ImportContext& context, const NodeData& node, const Op& op, Imported a,
                    Imported b) {
  const bool alike = a.layout == b.layout && a.scale.empty() && b.scale.empty() &&
                     context.builder.shape(a.value) == context.builder.shape(b.value);
  const bool is_last = !alike && a.is_channels_last() && b.is_channels_last();
  if (is_last) {
    turn_channels_first(a);
    turn_channels_first(b);
  }
  if (!alike) {
    MANTISSA_ASSIGN(const int first, images_of(context, as_image(a)));
    MANTISSA_ASSIGN(const int second, images_of(context, as_image(b)));
    const std::vector<int64_t> dims = a.layout.dims();
    define_image(context, node.outputs[0], first);
    a = context.values[node.outputs[0]];
    a.layout.reshape(dims);
    b.value = second;
  }
  MANTISSA_ASSIGN(a.value, add_node(context, op, node_name(context, node), {a.value, b.value}));
  turn_back(is_last, a);
  define(context, node.outputs[0], std::move(a));
  return {};
}

// For an image and a number for each of its channels.
Status add_gate(ImportContext& context, const NodeData& node, const Imported& image,
                const Imported& gate) {
  MANTISSA_ASSIGN(const int first, images_of(context, image));
  MANTISSA_ASSIGN(const int second, images_of(context, gate));
  MANTISSA_ASSIGN(const int value,
                  add_node(context, ops::kMultiply, node_name(context, node), {first, second}));
  define_image(context, node.outputs[0], value);
  return {};
}

bool is_gate(const Imported& image, const Imported& gate) {
  const std::vector<int64_t> dims = image.layout.dims();
  std::vector<int64_t> wanted(dims.size(), 1);
  if (!dims.empty()) wanted[0] = dims[0];
  return (dims.size() == 3 || dims.size() == 4) && gate.layout.dims() == wanted;
}

std::string dims_text(const Imported& value) {
  std::string text = "[N";
  for (const int64_t dim : value.layout.dims()) text += ", " + std::to_string(dim);
  return text + "]";
}

Status combine_rows(ImportContext& context, const NodeData& node, const Op& op,
                    const Attributes& attributes) {
  MANTISSA_ASSIGN(Imported a, plain_input(context, node, 0));
  MANTISSA_ASSIGN(const Imported b, plain_input(context, node, 1));
  if (!(a.layout == b.layout) || context.builder.shape(a.value) != context.builder.shape(b.value)) {
    return invalid_input("has two inputs of different shapes");
  }
  MANTISSA_ASSIGN(a.value,
                  add_node(context, op, node_name(context, node), {a.value, b.value}, attributes));
  define(context, node.outputs[0], std::move(a));
  return {};
}

Status scale_rows(ImportContext& context, const NodeData& node, const Factor& factor) {
  if (scores_of(context, node, factor.value_input) != nullptr) {
    return scale_scores(context, node, factor);
  }
  MANTISSA_ASSIGN(Imported value, input_of(context, node, factor.value_input));
  value.scale = {(value.scale.empty() ? 1 : value.scale[0]) * factor.number};
  define(context, node.outputs[0], std::move(value));
  return {};
}

}  // namespace

Status import_add(ImportContext& context, const NodeData& node) {
  for (const size_t i : {0, 1}) {
    const TensorData* tensor = constant_of(context, node, i);
    if (tensor != nullptr) return add_affine(context, node, 1 - i, *tensor, 1, 1);
  }
  MANTISSA_ASSIGN(const Imported a, input_of(context, node, 0));
  MANTISSA_ASSIGN(const Imported b, input_of(context, node, 1));
  if (a.layout.dims() == b.layout.dims()) return add_elements(context, node, ops::kAdd, a, b);
  return invalid_input("adds values of different shapes, " + dims_text(a) + " and " + dims_text(b));
}

Status import_subtract(ImportContext& context, const NodeData& node) {
  if (const TensorData* tensor = constant_of(context, node, 1)) {
    return add_affine(context, node, 0, *tensor, 1, -1);
  }
  if (const TensorData* tensor = constant_of(context, node, 0)) {
    return add_affine(context, node, 1, *tensor, -1, 1);
  }
  MANTISSA_ASSIGN(const Imported a, input_of(context, node, 0));
  MANTISSA_ASSIGN(const Imported b, input_of(context, node, 1));
  if (a.layout.dims() == b.layout.dims()) return add_elements(context, node, ops::kSubtract, a, b);
  return invalid_input("subtracts values of different shapes, " + dims_text(a) + " and " +
                       dims_text(b));
}

Status import_multiply(ImportContext& context, const NodeData& node) {
  for (const size_t i : {0, 1}) {
    const TensorData* tensor = constant_of(context, node, i);
    if (tensor != nullptr) return add_affine(context, node, 1 - i, *tensor, 1, 0);
  }
  MANTISSA_ASSIGN(const Imported a, input_of(context, node, 0));
  MANTISSA_ASSIGN(const Imported b, input_of(context, node, 1));
  if (a.layout.dims() == b.layout.dims()) return add_elements(context, node, ops::kMultiply, a, b);
  if (is_gate(a, b)) return add_gate(context, node, a, b);
  if (is_gate(b, a)) return add_gate(context, node, b, a);
  return invalid_input("multiplies values of shapes that do not fit, " + dims_text(a) + " and " +
                       dims_text(b));
}

Status import_divide(ImportContext& context, const NodeData& node) {
  const TensorData* tensor = constant_of(context, node, 1);
  if (tensor == nullptr) return invalid_input("divides by a value; only by constants is possible");
  MANTISSA_ASSIGN(std::vector<double> numbers, numbers_of(*tensor));
  for (double& number : numbers) {
    if (number == 0) return invalid_input("divides by 0");
    number = 1 / number;
  }
  const auto bytes = std::as_bytes(std::span(numbers));
  return add_affine(context, node, 0, {tensor->name, ElementType::kDouble, tensor->dims, bytes, {}},
                    1, 0);
}

Status import_row_add(ImportContext& context, const NodeData& node) {
  for (const size_t i : {0, 1}) {
    if (scores_of(context, node, i) != nullptr) return mask_scores(context, node, i);
  }
  for (const size_t i : {0, 1}) {
    const TensorData* tensor = constant_of(context, node, i);
    if (tensor != nullptr) return add_table(context, node, 1 - i, *tensor);
  }
  return combine_rows(context, node, ops::kAdd, {{"least_bits", kWideBits}});
}

Status import_row_subtract(ImportContext& context, const NodeData& node) {
  if (constant_of(context, node, 0) != nullptr) {
    return invalid_input("subtracts a value from a constant");
  }
  if (constant_of(context, node, 1) != nullptr) return invalid_input("subtracts a constant");
  return combine_rows(context, node, ops::kSubtract, {{"least_bits", kWideBits}});
}

// x * x.
Status import_power(ImportContext& context, const NodeData& node) {
  MANTISSA_ASSIGN(const auto exponent, scalar_of(context, node, 1, ""));
  if (!exponent || *exponent != 2) {
    return invalid_input("has another exponent than 2, the only one that can be trained");
  }
  MANTISSA_ASSIGN(const Imported value, input_of(context, node, 0));
  if (value.form == Form::kImage) return add_elements(context, node, ops::kMultiply, value, value);
  MANTISSA_ASSIGN(Imported row, plain_input(context, node, 0));
  MANTISSA_ASSIGN(row.value, add_node(context, ops::kMultiply, node_name(context, node),
                                      {row.value, row.value}));
  define(context, node.outputs[0], std::move(row));
  return {};
}

Status import_row_multiply(ImportContext& context, const NodeData& node) {
  if (const auto factor = factor_of(context, node)) return scale_rows(context, node, *factor);
  for (const size_t i : {0, 1}) {
    if (constant_of(context, node, i) != nullptr) {
      return invalid_input("multiplies by a constant that is not one number");
    }
  }
  return combine_rows(context, node, ops::kMultiply, {});
}

Status import_row_divide(ImportContext& context, const NodeData& node) {
  if (const auto factor = factor_of(context, node)) return scale_rows(context, node, *factor);
  return invalid_input("divides by something else than one constant number");
}

}  // namespace mantissa::onnx
