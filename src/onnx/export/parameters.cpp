#include "onnx/export/parameters.h"

#include <cmath>

namespace mantissa::onnx {
namespace {

int row_exponent(const ExportedParameter& parameter, int64_t row) {
  return parameter.exponents[parameter.exponents.size() > 1 ? static_cast<size_t>(row) : 0];
}

Status check_bytes(const ExportContext& context, int parameter) {
  const Parameter& described = context.graph.parameters[parameter];
  if (std::ssize(context.numbers(parameter).numbers) == described.shape.count()) return {};
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
std::vector<float> scales_of_rows(const ExportContext& context, int parameter) {
  std::vector<float> scales;
  for (int64_t row = 0; row < context.graph.parameters[parameter].shape[0]; ++row) {
    scales.push_back(std::ldexp(1.0F, row_exponent(context.numbers(parameter), row)));
  }
  return scales;
}

}  // namespace

int64_t mantissa_at(const ExportedParameter& parameter, int64_t count, int64_t i) {
  const int64_t bytes = std::ssize(parameter.numbers) / count;
  if (bytes == 1) return number_at<int8_t>(parameter, i);
  return bytes == 2 ? number_at<int16_t>(parameter, i) : number_at<int32_t>(parameter, i);
}

std::vector<float> real_numbers(const ExportContext& context, int parameter) {
  const ExportedParameter& from = context.numbers(parameter);
  const Shape& shape = context.graph.parameters[parameter].shape;
  const int64_t count = shape.count(), columns = count / shape[0];
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(is_real(from) ? number_at<float>(from, i)
                                    : static_cast<float>(std::ldexp(
                                          static_cast<double>(mantissa_at(from, count, i)),
                                          row_exponent(from, i / columns))));
  }
  return numbers;
}

std::string real_parameter(ExportContext& context, int parameter) {
  const Shape& shape = context.graph.parameters[parameter].shape;
  return context.builder.numbers(context.graph.parameters[parameter].name, ElementType::kFloat,
                                 dims_of(shape), real_numbers(context, parameter));
}

std::string row_scales(ExportContext& context, int parameter) {
  std::vector<float> scales;
  for (const int exponent : context.numbers(parameter).exponents) {
    scales.push_back(std::ldexp(1.0F, exponent));
  }
  return context.builder.numbers(context.graph.parameters[parameter].name + "/scales",
                                 ElementType::kFloat, {std::ssize(scales), 1}, scales);
}

std::string column_scales(ExportContext& context, int parameter) {
  const Parameter& described = context.graph.parameters[parameter];
  return context.builder.numbers(described.name + "/column_scales", ElementType::kFloat,
                                 {described.shape[0]}, scales_of_rows(context, parameter));
}

Result<std::string> byte_rows(ExportContext& context, int parameter) {
  const Parameter& described = context.graph.parameters[parameter];
  MANTISSA_RETURN_IF_ERROR(check_bytes(context, parameter));
  const int64_t rows = described.shape[0], columns = described.shape.count() / rows;
  return context.builder.constant(described.name, ElementType::kInt8, {rows, columns},
                                  context.numbers(parameter).numbers);
}

Result<std::string> table_rows(ExportContext& context, int parameter, const std::string& indices,
                               const std::string& name) {
  ExportBuilder& to = context.builder;
  const ExportedParameter& table = context.numbers(parameter);
  if (is_real(table)) return to.add("Gather", name, {real_parameter(context, parameter), indices});
  MANTISSA_ASSIGN(const std::string bytes, byte_rows(context, parameter));
  const std::string mantissas = to.add("Gather", name + "/mantissas", {bytes, indices});
  std::string scales = row_scales(context, parameter);
  if (table.exponents.size() > 1) scales = to.add("Gather", name + "/scales", {scales, indices});
  const std::string numbers = to.cast(name + "/float", mantissas, ElementType::kFloat);
  return to.add("Mul", name, {numbers, scales});
}

Result<std::string> transposed_parameter(ExportContext& context, int parameter) {
  const ExportedParameter& from = context.numbers(parameter);
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

Result<std::string> weights_of_gates(ExportContext& context, int parameter,
                                     const std::vector<int64_t>& order, const std::string& name) {
  const ExportedParameter& from = context.numbers(parameter);
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

}  // namespace mantissa::onnx
