#include "onnx/import_operators.h"

#include <algorithm>
#include <string_view>

namespace mantissa::onnx {
namespace {

constexpr ImportRow kRows[] = {
    {"Add", import_add},
    {"AveragePool", import_average_pool},
    {"BatchNormalization", import_batch_norm},
    {"Cast", import_cast},
    {"Clip", import_clip},
    {"Concat", import_concat},
    {"Conv", import_convolution},
    {"Div", import_divide},
    {"Dropout", import_dropout},
    {"Flatten", import_flatten},
    {"Gemm", import_gemm},
    {"GlobalAveragePool", import_global_average_pool},
    {"HardSigmoid", import_hard_sigmoid},
    {"HardSwish", import_hard_swish},
    {"Identity", import_identity},
    {"LeakyRelu", import_leaky_relu},
    {"MatMul", import_matmul},
    {"MaxPool", import_max_pool},
    {"Mul", import_multiply},
    {"Pad", import_pad},
    {"ReduceMean", import_reduce_mean},
    {"Relu", import_relu},
    {"Reshape", import_reshape},
    {"Sigmoid", import_sigmoid},
    {"Squeeze", import_squeeze},
    {"Sub", import_subtract},
    {"Tanh", import_tanh},
    {"Transpose", import_transpose},
    {"Unsqueeze", import_unsqueeze},
};

}  // namespace

std::span<const ImportRow> import_rows() { return kRows; }

const ImportRow* find_row(std::string_view op_type) {
  const auto* found = std::find_if(std::begin(kRows), std::end(kRows),
                                   [&](const ImportRow& row) { return row.op_type == op_type; });
  return found == std::end(kRows) ? nullptr : found;
}

std::vector<std::string> importable_operators() {
  std::vector<std::string> names;
  for (const ImportRow& row : kRows) names.emplace_back(row.op_type);
  names.insert(names.end(), {"Constant", "LogSoftmax", "Softmax"});
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace mantissa::onnx
