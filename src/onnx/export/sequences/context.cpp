#include "onnx/export/sequences/context.h"

#include <cmath>

#include "onnx/export/context.h"

namespace mantissa::onnx {
namespace {

template <typename T>
T number_at(std::span<const std::byte> bytes, int64_t i) {
  return reinterpret_cast<const T*>(bytes.data())[i];
}

const ExportedParameter& exported(const SequenceContext& context, int parameter) {
  return context.network.parameters[static_cast<size_t>(parameter)];
}

int row_exponent(const ExportedParameter& parameter, int64_t row) {
  return parameter.exponents[parameter.exponents.size() > 1 ? static_cast<size_t>(row) : 0];
}

// Real numbers are float; mantissas have as many bytes as they need.
float real_at(const ExportedParameter& parameter, int64_t bytes, int64_t row, int64_t i) {
  if (is_real(parameter)) return number_at<float>(parameter.numbers, i);
  const auto mantissa = bytes == 1   ? number_at<int8_t>(parameter.numbers, i)
                        : bytes == 2 ? number_at<int16_t>(parameter.numbers, i)
                                     : number_at<int32_t>(parameter.numbers, i);
  return static_cast<float>(
      std::ldexp(static_cast<double>(mantissa), row_exponent(parameter, row)));
}

Status check_bytes(const SequenceContext& context, int parameter) {
  const Parameter& described = context.graph.parameters[parameter];
  if (std::ssize(exported(context, parameter).numbers) == described.shape.count()) return {};
  return invalid_input("has '" + described.name +
                       "' of more than 8 bits, and ONNX Runtime multiplies 8");
}

// The bytes of a matrix's parts, each of this many bytes, in this order.
std::vector<std::byte> in_order(std::span<const std::byte> bytes,
                                const std::vector<int64_t>& order) {
  const size_t part = bytes.size() / order.size();
  std::vector<std::byte> result;
  result.reserve(bytes.size());
  for (const int64_t from : order) {
    const auto one = bytes.subspan(static_cast<size_t>(from) * part, part);
    result.insert(result.end(), one.begin(), one.end());
  }
  return result;
}

// The scale of each row.
std::vector<float> scales_of_rows(const SequenceContext& context, int parameter) {
  std::vector<float> scales;
  for (int64_t row = 0; row < context.graph.parameters[parameter].shape[0]; ++row) {
    scales.push_back(std::ldexp(1.0F, row_exponent(exported(context, parameter), row)));
  }
  return scales;
}

}  // namespace

std::string output_name(const SequenceContext& context, const Node& node) {
  const std::string& name = context.graph.values[node.outputs[0]].name;
  for (const char* taken : {kInputIds, kNumbers, kAttentionMask, kTokenTypeIds, kDecoderInputIds,
                            kDecoderAttentionMask, kLastHiddenState, kSequenceLogits}) {
    if (name == taken) return name + "/value";
  }
  return name;
}

Result<std::vector<std::string>> inputs_of_one_form(const SequenceContext& context,
                                                    const Node& node) {
  std::vector<std::string> inputs;
  const SequenceValue& first = context.input(node);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const SequenceValue& in = context.input(node, i);
    if (in.form != first.form) return invalid_input("reads a sequence and a vector");
    if (in.side != first.side && in.form != SequenceValue::Form::kVector) {
      return invalid_input("reads positions of two sequences, whose lengths may differ");
    }
    inputs.push_back(in.name);
  }
  return inputs;
}

std::string within_range(SequenceContext& context, int value, const std::string& tensor) {
  const ExportedNetwork& network = context.network;
  if (network.exponents.empty() || network.has_row_exponents) return tensor;
  const std::string clipped = "/within_range", name = tensor + clipped;
  ExportBuilder& to = context.builder;
  if (tensor.ends_with(clipped)) return tensor;
  if (to.makes(name)) return name;
  const int limit = network.limits[static_cast<size_t>(value)];
  const int exponent = network.exponents[static_cast<size_t>(value)];
  const float most = std::ldexp(static_cast<float>(limit), exponent);
  const std::string bounds = "most_" + std::to_string(limit) + "_" + std::to_string(exponent);
  const std::string low = to.scalar(-most, bounds + "/low");
  return to.add("Clip", name, {tensor, low, to.scalar(most, bounds + "/high")});
}

std::vector<float> real_numbers(const SequenceContext& context, int parameter) {
  const ExportedParameter& from = exported(context, parameter);
  const Shape& shape = context.graph.parameters[parameter].shape;
  const int64_t count = shape.count(), bytes = std::ssize(from.numbers) / count;
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(real_at(from, bytes, i / (count / shape[0]), i));
  }
  return numbers;
}

std::string real_parameter(SequenceContext& context, int parameter) {
  const Shape& shape = context.graph.parameters[parameter].shape;
  return context.builder.numbers(context.graph.parameters[parameter].name, ElementType::kFloat,
                                 dims_of(shape), real_numbers(context, parameter));
}

std::string row_scales(SequenceContext& context, int parameter) {
  std::vector<float> scales;
  for (const int exponent : exported(context, parameter).exponents) {
    scales.push_back(std::ldexp(1.0F, exponent));
  }
  return context.builder.numbers(context.graph.parameters[parameter].name + "/scales",
                                 ElementType::kFloat, {std::ssize(scales), 1}, scales);
}

std::string column_scales(SequenceContext& context, int parameter) {
  const Parameter& described = context.graph.parameters[parameter];
  return context.builder.numbers(described.name + "/column_scales", ElementType::kFloat,
                                 {described.shape[0]}, scales_of_rows(context, parameter));
}

Result<std::string> byte_rows(SequenceContext& context, int parameter) {
  const Parameter& described = context.graph.parameters[parameter];
  MANTISSA_RETURN_IF_ERROR(check_bytes(context, parameter));
  const int64_t rows = described.shape[0], columns = described.shape.count() / rows;
  return context.builder.constant(described.name, ElementType::kInt8, {rows, columns},
                                  exported(context, parameter).numbers);
}

Result<std::string> transposed_parameter(SequenceContext& context, int parameter) {
  const ExportedParameter& from = exported(context, parameter);
  if (!is_real(from)) MANTISSA_RETURN_IF_ERROR(check_bytes(context, parameter));
  const Parameter& described = context.graph.parameters[parameter];
  const int64_t rows = described.shape[0], columns = described.shape.count() / rows;
  const int64_t bytes = std::ssize(from.numbers) / (rows * columns);
  std::vector<std::byte> numbers;
  numbers.reserve(from.numbers.size());
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row) {
      const auto one = from.numbers.subspan((row * columns + column) * bytes, bytes);
      numbers.insert(numbers.end(), one.begin(), one.end());
    }
  }
  return context.builder.constant(described.name + "/columns",
                                  is_real(from) ? ElementType::kFloat : ElementType::kInt8,
                                  {columns, rows}, numbers);
}

Result<std::string> weights_of_gates(SequenceContext& context, int parameter,
                                     const std::vector<int64_t>& order, const std::string& name) {
  const ExportedParameter& from = exported(context, parameter);
  const Parameter& described = context.graph.parameters[parameter];
  ExportBuilder& to = context.builder;
  const std::string tensor = described.name + "/" + name;
  const std::vector<int64_t> dims = {1, described.shape[0],
                                     described.shape.count() / described.shape[0]};
  const std::vector<std::byte> numbers = in_order(from.numbers, order);
  if (is_real(from)) return to.constant(tensor, ElementType::kFloat, dims, numbers);
  MANTISSA_RETURN_IF_ERROR(check_bytes(context, parameter));
  if (to.makes(tensor)) return tensor;
  const std::vector<float> scales = scales_of_rows(context, parameter);
  return to.add("DequantizeLinear", tensor,
                {to.constant(tensor + "/bytes", ElementType::kInt8, dims, numbers),
                 to.constant(tensor + "/scales", ElementType::kFloat, {std::ssize(scales)},
                             in_order(std::as_bytes(std::span(scales)), order))},
                {{"axis", int64_t{1}}});
}

std::string padding(ExportBuilder& to, const std::string& mask) {
  const std::string name = mask + "/hidden";
  if (to.makes(name)) return name;
  const std::string seen =
      to.add("Cast", mask + "/seen", {mask}, {{"to", static_cast<int64_t>(ElementType::kFloat)}});
  return to.add("Sub", name, {to.power(0), seen});
}

std::string positions(SequenceContext& context, Side side) {
  ExportBuilder& to = context.builder;
  const std::string length = length_name(side), name = "positions/of_" + length;
  if (to.makes(name)) return name;
  const auto& inputs = to.graph.inputs;
  const auto input = std::find_if(inputs.begin(), inputs.end(), [&](const ValueData& each) {
    return each.dims[1].name == length;
  });
  const std::string zero = to.numbers<int64_t>("positions/zero", ElementType::kInt64, {}, {0});
  const std::string one = to.numbers<int64_t>("positions/one", ElementType::kInt64, {}, {1});
  const std::string shape = to.add("Shape", name + "/shape", {input->name});
  const std::string count = to.add("Gather", name + "/count", {shape, one});
  return to.add("Range", name, {zero, count, one});
}

Status check_lengths(const SequenceContext& context, const Node& node, size_t i, Side side) {
  const SequenceValue& lengths = context.input(node, i);
  if (lengths.form == SequenceValue::Form::kMask && lengths.side == side) return {};
  return invalid_input("reads the lengths of another sequence");
}

}  // namespace mantissa::onnx
