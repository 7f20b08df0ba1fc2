#include "onnx/import/operators.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "onnx/evaluate/op_table.h"
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
    {"Celu", import_celu, import_celu},
    {"Clip", import_clip, import_clip},
    {"Concat", import_concat, import_row_concat},
    {"Conv", import_convolution, nullptr},
    {"ConvTranspose", import_transposed, nullptr},
    {"DequantizeLinear", import_dequantise_linear, import_dequantise_linear},
    {"Div", import_divide, import_row_divide},
    {"Dropout", import_dropout, import_dropout},
    {"Elu", import_elu, import_elu},
    {"Flatten", import_flatten, import_row_reshape},
    {"GRU", nullptr, import_gru},
    {"Gather", import_gather, import_row_gather},
    {"GatherElements", import_gather_elements, import_gather_elements},
    {"GatherND", nullptr, import_row_gather_nd},
    {"Gelu", import_gelu, import_gelu},
    {"Gemm", import_gemm, import_gemm},
    {"GlobalAveragePool", import_global_average_pool, nullptr},
    {"GlobalMaxPool", import_global_max_pool, nullptr},
    {"GroupNormalization", import_group_norm, nullptr},
    {"HardSigmoid", import_hard_sigmoid, nullptr},
    {"HardSwish", import_elementwise<&ops::kHardSwish>, import_elementwise<&ops::kHardSwish>},
    {"Identity", import_identity, import_identity},
    {"InstanceNormalization", import_instance_norm, nullptr},
    {"IsNaN", nullptr, import_is_nan},
    {"LSTM", nullptr, import_lstm},
    {"LayerNormalization", import_image_norm, import_row_norm},
    {"LeakyRelu", import_leaky_relu, import_leaky_relu},
    {"MatMul", import_matmul, import_matmul},
    {"MaxPool", import_max_pool, nullptr},
    {"Mish", import_elementwise<&ops::kMish>, import_elementwise<&ops::kMish>},
    {"Mul", import_multiply, import_row_multiply},
    {"PRelu", import_prelu, import_row_prelu},
    {"Pad", import_pad, nullptr},
    {"Pow", import_power, import_power},
    {"QuantizeLinear", import_quantise_linear, import_quantise_linear},
    {"RMSNormalization", import_image_norm, import_row_norm},
    {"RNN", nullptr, import_rnn},
    {"ReduceMax", import_reduction<&ops::kReduceMax>, import_row_reduction<&ops::kReduceMax>},
    {"ReduceMean", import_mean, import_row_mean},
    {"ReduceSum", import_reduction<&ops::kReduceSum>, import_row_reduction<&ops::kReduceSum>},
    {"Relu", import_elementwise<&ops::kRelu>, import_elementwise<&ops::kRelu>},
    {"Reshape", import_reshape, import_row_reshape},
    {"Resize", import_resize, nullptr},
    {"ScatterElements", import_scatter_elements, import_scatter_elements},
    {"ScatterND", import_scatter_nd, import_scatter_nd},
    {"Selu", import_selu, import_selu},
    {"Sigmoid", import_elementwise<&ops::kSigmoid>, import_elementwise<&ops::kSigmoid>},
    {"Slice", import_slice, import_row_slice},
    {"Softmax", import_image_softmax, import_softmax},
    {"Softplus", import_elementwise<&ops::kSoftplus>, import_elementwise<&ops::kSoftplus>},
    {"Split", import_split, import_row_split},
    {"Squeeze", import_squeeze, import_row_reshape},
    {"Sub", import_subtract, import_row_subtract},
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
  constexpr const char* kRandom =
      "draws random numbers, as stochastic depth does in training mode; a network that is exported "
      "in evaluation mode has none of these";
  constexpr const char* kNotTrained =
      "this operator cannot be imported, since nothing here trains it; `mantissa run` computes it";
  constexpr const char* kIntegers =
      "computes with integers, and stands for no layer of constant weights, scales and zero "
      "points; "
      "a model that is quantised by pairs of QuantizeLinear and DequantizeLinear (QDQ) can be "
      "imported";
  constexpr const char* kSoftmax = "is possible at the end only, over the classes";
  constexpr std::pair<std::string_view, const char*> kReasons[] = {
      {"Bernoulli", kRandom},
      {"ConvInteger", kIntegers},
      {"DynamicQuantizeLinear", kIntegers},
      {"MatMulInteger", kIntegers},
      {"MatMulNBits",
       "has weights, scales or zero points that are no constants, or an order of the weights "
       "(g_idx), or other types than uint8 and float32"},
      {"QLinearConv", kIntegers},
      {"QLinearMatMul", kIntegers},
      {"RandomNormalLike", kRandom},
      {"RandomUniformLike", kRandom},
      {"LogSoftmax", kSoftmax}};
  for (const auto& [name, reason] : kReasons) {
    if (op_type == name) return reason;
  }
  if (find_row(op_type) != nullptr) {
    return "this operator can be imported in networks of sequences only";
  }
  return is_operator(op_type) ? kNotTrained : "this operator cannot be imported";
}

}  // namespace mantissa::onnx
