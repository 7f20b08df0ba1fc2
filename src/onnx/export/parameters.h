// The numbers of parameters, and constants of them.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "onnx/export/context.h"

namespace mantissa::onnx {

// Whether numbers are real, without exponents.
inline bool is_real(const ExportedParameter& parameter) { return parameter.exponents.empty(); }

template <typename T>
T number_at(const ExportedParameter& parameter, int64_t i) {
  T number;
  std::memcpy(&number, parameter.numbers.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return number;
}

// Number i of `count` mantissas, which have one, two or four bytes each.
int64_t mantissa_at(const ExportedParameter& parameter, int64_t count, int64_t i);

// The numbers of a parameter.
std::vector<float> real_numbers(const ExportContext& context, int parameter);

// The same as a float32 constant of its name and shape.
std::string real_parameter(ExportContext& context, int parameter);

// The scales of a parameter's mantissas, one for each row or one for all: float32 [scales, 1].
std::string row_scales(ExportContext& context, int parameter);

// One for each row: float32 [rows].
std::string column_scales(ExportContext& context, int parameter);

// The mantissas of weights or of a table as a constant, int8 [rows, columns]. An error if they
// have more than 8 bits.
Result<std::string> byte_rows(ExportContext& context, int parameter);

// The rows of a table that indices name. Mantissas are gathered before they become real numbers, so
// that no table of floats is made. The same error.
Result<std::string> table_rows(ExportContext& context, int parameter, const std::string& indices,
                               const std::string& name);

// The mantissas or real numbers of weights, int8 or float32 [columns, rows]. The same error.
Result<std::string> transposed_parameter(ExportContext& context, int parameter);

// The weights of gates, [gates * n, columns], with the gates in another order: float32 [1, gates *
// n, columns], a constant or DequantizeLinear of one. The same error. `name` is the operator's,
// whose order of gates it is.
Result<std::string> weights_of_gates(ExportContext& context, int parameter,
                                     const std::vector<int64_t>& order, const std::string& name);

}  // namespace mantissa::onnx
