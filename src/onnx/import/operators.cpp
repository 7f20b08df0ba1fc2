#include "onnx/import/operators.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace mantissa::onnx {
namespace {

constexpr ImportRow kPictureRows[] = {
    {"Add", import_add},
    {"AveragePool", import_average_pool},
    {"BatchNormalization", import_batch_norm},
    {"Cast", import_cast},
    {"Clip", import_clip},
    {"Concat", import_concat},
    {"Conv", import_convolution},
    {"DequantizeLinear", import_dequantise_linear},
    {"Div", import_divide},
    {"Dropout", import_dropout},
    {"Flatten", import_flatten},
    {"Gemm", import_gemm},
    {"Gather", import_gather},
    {"GlobalAveragePool", import_global_average_pool},
    {"HardSigmoid", import_hard_sigmoid},
    {"HardSwish", import_hard_swish},
    {"Identity", import_identity},
    {"LeakyRelu", import_leaky_relu},
    {"MatMul", import_matmul},
    {"MaxPool", import_max_pool},
    {"Mul", import_multiply},
    {"PRelu", import_prelu},
    {"Pad", import_pad},
    {"ReduceMean", import_reduce_mean},
    {"QuantizeLinear", import_quantise_linear},
    {"Relu", import_relu},
    {"Reshape", import_reshape},
    {"Sigmoid", import_sigmoid},
    {"Slice", import_slice},
    {"Split", import_split},
    {"Squeeze", import_squeeze},
    {"Sub", import_subtract},
    {"Tanh", import_tanh},
    {"Transpose", import_transpose},
    {"Unsqueeze", import_unsqueeze},
};

}  // namespace

const ImportRow* find_row(std::string_view op_type) {
  const auto* found = std::find_if(std::begin(kPictureRows), std::end(kPictureRows),
                                   [&](const ImportRow& row) { return row.op_type == op_type; });
  return found == std::end(kPictureRows) ? nullptr : found;
}

std::string reason_against(std::string_view op_type) {
  constexpr const char* kNorm =
      "normalises each example alone; of norms only BatchNormalization can be trained here";
  constexpr const char* kRandom =
      "draws random numbers, as stochastic depth does in training mode; a network that is exported "
      "in evaluation mode has none of these";
  constexpr const char* kLater = "this operator cannot be trained yet; `mantissa run` computes it";
  constexpr const char* kIntegers =
      "computes with quantised integers; a model that is quantised by pairs of QuantizeLinear and "
      "DequantizeLinear (QDQ) can be imported";
  constexpr const char* kSoftmax = "is possible at the end only, over the classes";
  constexpr std::pair<std::string_view, const char*> kReasons[] = {
      {"Bernoulli", kRandom},
      {"ConvInteger", kIntegers},
      {"DynamicQuantizeLinear", kIntegers},
      {"GlobalMaxPool", kLater},
      {"GroupNormalization", kNorm},
      {"InstanceNormalization", kNorm},
      {"LayerNormalization", kNorm},
      {"MatMulInteger", kIntegers},
      {"Mish", kLater},
      {"QLinearConv", kIntegers},
      {"QLinearMatMul", kIntegers},
      {"RMSNormalization", kNorm},
      {"RandomNormalLike", kRandom},
      {"RandomUniformLike", kRandom},
      {"LogSoftmax", kSoftmax},
      {"Softmax", kSoftmax}};
  for (const auto& [name, reason] : kReasons) {
    if (op_type == name) return reason;
  }
  return "this operator cannot be imported";
}

}  // namespace mantissa::onnx
