// The attributes of nodes, and the numbers of constants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "onnx/model.h"

namespace mantissa::onnx {

// Attributes; `otherwise` if the node has none of that name and kind.
int64_t whole_of(const NodeData& node, std::string_view name, int64_t otherwise);
double real_of(const NodeData& node, std::string_view name, double otherwise);
std::vector<int64_t> wholes_of(const NodeData& node, std::string_view name,
                               std::vector<int64_t> otherwise = {});
std::string text_of(const NodeData& node, std::string_view name, std::string_view otherwise);
bool has_attribute(const NodeData& node, std::string_view name);

// Whether the input is given at all.
bool has_input(const NodeData& node, size_t index);

// The numbers of a constant of any type of numbers.
Result<std::vector<double>> numbers_of(const TensorData& tensor);
Result<std::vector<int64_t>> wholes_of(const TensorData& tensor);

}  // namespace mantissa::onnx
