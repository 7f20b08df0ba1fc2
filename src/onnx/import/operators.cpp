#include "onnx/import/operators.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// An operator, and its functions for images and for rows.
struct ImportRow {
  std::string_view op_type;
  ImportFunction images, rows;
};

constexpr ImportRow kImportRows[] = {
    {"Add", import_add, import_row_add},
    {"AveragePool", import_average_pool, nullptr},
    {"BatchNormalization", import_batch_norm, nullptr},
    {"Cast", import_cast, import_cast},
    {"Clip", import_clip, import_clip},
    {"Concat", import_concat, import_row_concat},
    {"Conv", import_convolution, nullptr},
    {"ConvTranspose", import_transposed, nullptr},
    {"DequantizeLinear", import_dequantise_linear, nullptr},
    {"Div", import_divide, import_row_divide},
    {"Dropout", import_dropout, import_dropout},
    {"Flatten", import_flatten, import_row_reshape},
    {"GRU", nullptr, import_gru},
    {"Gather", import_gather, import_row_gather},
    {"Gelu", nullptr, import_gelu},
    {"Gemm", import_gemm, import_gemm},
    {"GlobalAveragePool", import_global_average_pool, nullptr},
    {"HardSigmoid", import_hard_sigmoid, nullptr},
    {"HardSwish", import_elementwise<&ops::kHardSwish>, import_elementwise<&ops::kHardSwish>},
    {"Identity", import_identity, import_identity},
    {"IsNaN", nullptr, import_is_nan},
    {"LSTM", nullptr, import_lstm},
    {"LayerNormalization", nullptr, import_row_norm},
    {"LeakyRelu", import_leaky_relu, import_leaky_relu},
    {"MatMul", import_matmul, import_matmul},
    {"MaxPool", import_max_pool, nullptr},
    {"Mul", import_multiply, import_row_multiply},
    {"PRelu", import_prelu, import_prelu},
    {"Pad", import_pad, nullptr},
    {"QuantizeLinear", import_quantise_linear, nullptr},
    {"RMSNormalization", nullptr, import_row_norm},
    {"RNN", nullptr, import_rnn},
    {"ReduceMean", import_mean, import_row_mean},
    {"Relu", import_elementwise<&ops::kRelu>, import_elementwise<&ops::kRelu>},
    {"Reshape", import_reshape, import_row_reshape},
    {"Resize", import_resize, nullptr},
    {"Sigmoid", import_elementwise<&ops::kSigmoid>, import_elementwise<&ops::kSigmoid>},
    {"Slice", import_slice, import_row_slice},
    {"Softmax", nullptr, import_softmax},
    {"Split", import_split, import_row_split},
    {"Squeeze", import_squeeze, import_row_reshape},
    {"Sub", import_subtract, nullptr},
    {"Tanh", import_elementwise<&ops::kTanh>, import_elementwise<&ops::kTanh>},
    {"Transpose", import_transpose, import_transpose},
    {"Unsqueeze", import_unsqueeze, import_row_reshape},
    {"Upsample", import_resize, nullptr},
    {"Where", nullptr, import_where},
};

const ImportRow* find_row(std::string_view op_type) {
  const auto* found = std::find_if(std::begin(kImportRows), std::end(kImportRows),
                                   [&](const ImportRow& row) { return row.op_type == op_type; });
  return found == std::end(kImportRows) ? nullptr : found;
}

}  // namespace

ImportFunction import_function(std::string_view op_type, Form form) {
  const ImportRow* row = find_row(op_type);
  if (row == nullptr) return nullptr;
  return form == Form::kImage ? row->images : row->rows;
}

std::string reason_against(std::string_view op_type, Form form) {
  if (form == Form::kRows && find_row(op_type) != nullptr) {
    return "this operator can be imported in networks of pictures only";
  }
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
