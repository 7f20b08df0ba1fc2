// Sums, pools, and operators that move elements.
#include <algorithm>
#include <cmath>

#include "ops/attributes.h"
#include "ops/ops.h"
#include "ops/pooling/pool_axes.h"
#include "tflite/export_context.h"

namespace mantissa::tflite {
namespace {

constexpr int kMostAddShift = 6;

std::vector<int32_t> example_dims(const Shape& shape) {
  std::vector<int32_t> dims = {1};
  for (int i = 0; i < shape.rank; ++i) dims.push_back(static_cast<int32_t>(shape[i]));
  return dims;
}

// The same numbers in another tensor.
Exported moved(ExportContext& context, const Node& node, const Exported& from) {
  Exported result = from;
  result.tensor = context.add_value(node.name, context.shape(node.outputs[0]), from);
  return result;
}

}  // namespace

int ExportContext::add(TensorData tensor) {
  model.tensors.push_back(std::move(tensor));
  return static_cast<int>(model.tensors.size()) - 1;
}

int ExportContext::add_value(const std::string& name, const Shape& shape, const Exported& as) {
  return add({.name = name,
              .dims = example_dims(shape),
              .scales = {std::ldexp(1.0f, as.exponent)},
              .zero = as.zero});
}

int ExportContext::add_whole_numbers(const std::string& name, std::vector<int32_t> dims,
                                     const std::vector<int32_t>& numbers) {
  const auto* bytes = reinterpret_cast<const std::byte*>(numbers.data());
  return add({.name = name,
              .type = Type::kInt32,
              .dims = std::move(dims),
              .bytes = {bytes, bytes + sizeof(int32_t) * numbers.size()}});
}

Exported made_value(const ExportContext& context, const Node& node, bool is_signed, int most) {
  return {.exponent = context.exponent(node.outputs[0]),
          .zero = is_signed ? 0 : INT8_MAX - most,
          .is_signed = is_signed};
}

// A ReLU6 clips above by the zero point.
Activation activation_of(bool is_signed) {
  return is_signed ? Activation::kNone : Activation::kRelu;
}

WindowPadding window_padding(const WindowAxis& vertical, const WindowAxis& horizontal) {
  const auto behind = [](const WindowAxis& axis) {
    return (axis.out - 1) * axis.stride + axis.window - axis.in - axis.padding;
  };
  const auto is_same = [&](const WindowAxis& axis) {
    const int64_t all = std::max<int64_t>(0, axis.padding + behind(axis));
    return axis.out == (axis.in + axis.stride - 1) / axis.stride && axis.padding == all / 2;
  };
  if (is_same(vertical) && is_same(horizontal)) return {.is_same = true};
  const auto cells = [](int64_t count) {
    return static_cast<int32_t>(std::max<int64_t>(0, count));
  };
  return {false, cells(vertical.padding), cells(behind(vertical)), cells(horizontal.padding),
          cells(behind(horizontal))};
}

int add_padding(ExportContext& context, const std::string& name, const Exported& image,
                const Shape& shape, const WindowPadding& p) {
  const int cells = context.add_whole_numbers(name + "/cells", {4, 2},
                                              {0, 0, p.top, p.bottom, p.left, p.right, 0, 0});
  const Shape padded{shape[0] + p.top + p.bottom, shape[1] + p.left + p.right, shape[2]};
  const int result = context.add_value(name + "/padded", padded, image);
  context.model.operations.push_back({Code::kPad, {image.tensor, cells}, {result}});
  return result;
}

Result<Exported> export_add(ExportContext& context, int n) {
  const Node& node = context.node(n);
  const Exported a = context.input(node), b = context.input(node, 1);
  const bool is_signed = !context.network.applies_relu[static_cast<size_t>(n)];
  const int limit = context.network.limits[static_cast<size_t>(
      context.network.canonical[static_cast<size_t>(node.outputs[0])])];
  Exported result = made_value(context, node, is_signed, limit);
  const int least = std::min(a.exponent, b.exponent), most = std::max(a.exponent, b.exponent);
  if (most - result.exponent > kMostAddShift || (is_signed && result.exponent > least)) {
    return invalid_input("has exponents with which runtimes would round differently");
  }
  result.tensor = context.add_value(node.name, context.shape(node.outputs[0]), result);
  context.model.operations.push_back(
      {Code::kAdd, {a.tensor, b.tensor}, {result.tensor}, activation_of(is_signed)});
  return result;
}

Result<Exported> export_max_pool(ExportContext& context, int n) {
  const Node& node = context.node(n);
  const Shape &in = context.shape(node.inputs[0]), &out = context.shape(node.outputs[0]);
  if (ops::is_sequence(in)) return invalid_input("is a pool over one axis");
  const auto [vertical, horizontal] =
      ops::pool_axes(node.attributes.as<ops::PoolAttributes>(), false);
  const WindowPadding padding =
      window_padding({vertical.window, vertical.stride, vertical.padding, in[0], out[0]},
                     {horizontal.window, horizontal.stride, horizontal.padding, in[1], out[1]});
  Exported from = context.input(node);
  if (padding.pads() && from.is_signed) {
    return invalid_input("pads values that may be negative otherwise than SAME padding does");
  }
  if (padding.pads()) from.tensor = add_padding(context, node.name, from, in, padding);
  const Exported result = moved(context, node, from);
  context.model.operations.push_back({.code = Code::kMaxPool,
                                      .inputs = {from.tensor},
                                      .outputs = {result.tensor},
                                      .is_same = padding.is_same,
                                      .stride_height = static_cast<int>(vertical.stride),
                                      .stride_width = static_cast<int>(horizontal.stride),
                                      .window_height = static_cast<int>(vertical.window),
                                      .window_width = static_cast<int>(horizontal.window)});
  return result;
}

Result<Exported> export_relu(ExportContext& context, int n) {
  const Node& node = context.node(n);
  Exported result = moved(context, node, context.input(node));
  result.is_signed = false;
  context.model.operations.push_back({Code::kRelu, {context.input(node).tensor}, {result.tensor}});
  return result;
}

Result<Exported> export_concat(ExportContext& context, int n) {
  const Node& node = context.node(n);
  std::vector<int> tensors;
  Exported all = context.input(node);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Exported& one = context.input(node, i);
    if (one.exponent != all.exponent || one.zero != all.zero) {
      return invalid_input("joins values of different scales or zero points");
    }
    all.is_signed = all.is_signed || one.is_signed;
    tensors.push_back(one.tensor);
  }
  const Exported result = moved(context, node, all);
  context.model.operations.push_back({.code = Code::kConcatenation,
                                      .inputs = std::move(tensors),
                                      .outputs = {result.tensor},
                                      .axis = context.shape(node.outputs[0]).rank});
  return result;
}

Result<Exported> export_reshape(ExportContext& context, int n) {
  const Node& node = context.node(n);
  const Exported& from = context.input(node);
  std::vector<int32_t> dims = example_dims(context.shape(node.outputs[0]));
  dims[0] = -1;  // any number of examples
  const int shape =
      context.add_whole_numbers(node.name + "/shape", {static_cast<int32_t>(dims.size())}, dims);
  const Exported result = moved(context, node, from);
  context.model.operations.push_back({Code::kReshape, {from.tensor, shape}, {result.tensor}});
  return result;
}

Result<Exported> export_pad(ExportContext& context, int n) {
  const Node& node = context.node(n);
  const auto& cells = node.attributes.as<ops::PadAttributes>();
  const auto count = [](int64_t side) { return static_cast<int32_t>(side); };
  Exported result = context.input(node);
  result.tensor = add_padding(
      context, node.name, result, context.shape(node.inputs[0]),
      {false, count(cells.top), count(cells.bottom), count(cells.left), count(cells.right)});
  return result;
}

Result<Exported> export_nothing(ExportContext& context, int n) {
  return context.input(context.node(n));
}

}  // namespace mantissa::tflite
