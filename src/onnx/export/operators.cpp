#include "onnx/export/operators.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "onnx/export/by_rows.h"
#include "onnx/export/rows.h"
#include "onnx/export/volumes.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// What float32 computes of mantissas: other bits than the network's, or the same.
enum class InFloat : uint8_t { kNear, kSame };

// An operator, its function for mantissas, and its function for float32 of sequences, or ONNX's
// operator of that name for each element of the inputs. Without a function for mantissas that for
// rows computes them, too.
struct ExportRow {
  const Op* op;
  ExportFunction mantissas, rows;
  const char* elementwise = nullptr;
  bool saturates = false;  // a residual stream, whose largest numbers a frozen network clips
  InFloat in_float = InFloat::kNear;
};

constexpr ExportRow kExportRows[] = {
    {&ops::kNormaliseInput, export_pixels, nullptr},
    {&ops::kQuantiseInput, export_numbers, export_identity, nullptr, true},
    {&ops::kEmbedding, nullptr, export_row_embedding},
    {&ops::kPositionEmbedding, nullptr, export_row_positions, nullptr, true, InFloat::kSame},
    {&ops::kSinusoidalPositions, nullptr, export_row_sinusoids, nullptr, true},
    {&ops::kRotary, nullptr, export_row_rotary},
    {&ops::kPrependRows, nullptr, export_row_prepend, nullptr, true, InFloat::kSame},
    {&ops::kConvolution, export_convolution, nullptr},
    {&ops::kRescaledConvolution, export_convolution, nullptr},
    {&ops::kTransposedConvolution, export_transposed_convolution, nullptr},
    {&ops::kLinear, export_linear, export_row_linear},
    {&ops::kRescaledLinear, export_linear, nullptr},
    {&ops::kScaleOffset, export_scale_offset, export_row_scale_offset},
    {&ops::kLayerNorm, nullptr, export_row_layer_norm, nullptr, true},
    {&ops::kRmsNorm, nullptr, export_row_rms_norm, nullptr, true},
    {&ops::kGroupNorm, export_group_norm, nullptr},
    {&ops::kAttention, nullptr, export_row_attention},
    {&ops::kRnn, nullptr, export_row_rnn},
    {&ops::kLstm, nullptr, export_row_lstm},
    {&ops::kGru, nullptr, export_row_gru},
    {&ops::kQuantise, export_quantise, export_row_quantise},
    {&ops::kRequantise, export_requantised, export_identity},
    {&ops::kAdd, export_add, nullptr, "Add", true},
    {&ops::kSubtract, export_subtract, nullptr, "Sub", true},
    {&ops::kMultiply, export_multiply, nullptr, "Mul"},
    {&ops::kRelu, export_relu, nullptr, "Relu"},
    {&ops::kRelu6, export_function_of_value, export_row_relu6},
    {&ops::kLeakyRelu, export_function_of_value, export_row_leaky_relu},
    {&ops::kSigmoid, export_function_of_value, nullptr, "Sigmoid"},
    {&ops::kTanh, export_function_of_value, nullptr, "Tanh"},
    {&ops::kHardSigmoid, export_function_of_value, export_row_hard_sigmoid},
    {&ops::kHardSwish, export_function_of_value, nullptr, "HardSwish"},
    {&ops::kGelu, export_function_of_value, nullptr, "Gelu"},
    {&ops::kGeluTanh, export_function_of_value, export_row_gelu_tanh},
    {&ops::kSilu, export_function_of_value, export_row_silu},
    {&ops::kElu, export_function_of_value, export_row_elu},
    {&ops::kSoftplus, export_function_of_value, nullptr, "Softplus"},
    {&ops::kMish, export_function_of_value, nullptr, "Mish"},
    {&ops::kPrelu, export_prelu, export_row_prelu},
    {&ops::kScale, export_scale, export_row_scale},
    {&ops::kMaxPool, export_max_pool, nullptr},
    {&ops::kOverlappingMaxPool, export_max_pool, nullptr},
    {&ops::kReduceMax, export_reduce_max, nullptr},
    {&ops::kAveragePool, export_average_pool, nullptr},
    {&ops::kExactAveragePool, export_average_pool, nullptr},
    {&ops::kReduceMean, export_reduced_mean, export_row_reduced_mean},
    {&ops::kReduceSum, export_reduced_sum, export_row_reduced_sum},
    {&ops::kGlobalAveragePool, export_reduced_mean, export_row_mean},
    {&ops::kRescaledGlobalAverage, export_global_average, export_row_mean},
    {&ops::kIdentity, export_identity, export_identity},
    {&ops::kConcat, export_concat, export_row_concat},
    {&ops::kConcatPositions, export_concat_positions, export_row_concat_positions},
    {&ops::kFlatten, export_flatten, export_row_flatten},
    {&ops::kReshape, export_reshape, export_row_flatten},
    {&ops::kUpsample, export_upsample, nullptr},
    {&ops::kBilinearResize, export_bilinear_resize, nullptr},
    {&ops::kPad, export_pad, nullptr},
    {&ops::kDepthTaps, export_depth_taps, nullptr},
    {&ops::kSlice, export_slice, export_row_slice},
    {&ops::kChannelShuffle, export_channel_shuffle, nullptr},
    {&ops::kReverse, export_reverse, export_row_reverse},
    {&ops::kGatherRows, export_gather_rows, export_row_gather_rows},
    {&ops::kScatterRows, export_scatter_rows, export_row_scatter_rows},
    {&ops::kSoftmax, export_softmax, export_row_softmax},
};

Result<Exported> export_elementwise(ExportContext& context, int n, const char* name) {
  const Node& node = context.graph.nodes[n];
  MANTISSA_ASSIGN(std::vector<std::string> inputs, inputs_of_one_form(context, node));
  return with_form(context, node,
                   context.builder.add(name, context.output_name(node), std::move(inputs)));
}

Result<Exported> export_mantissas(ExportContext& context, int n, const ExportRow& row) {
  const Node& node = context.graph.nodes[n];
  if (context.network.skipped[n] && node.op == &ops::kRelu) return context.input(node);
  if (row.mantissas != nullptr) return row.mantissas(context, n);
  if (row.rows == nullptr) {
    return invalid_input("has no form that ONNX Runtime computes to the same bits, or near them");
  }
  if (row.in_float == InFloat::kNear) add_near(context, node, "is computed in float32");
  return export_by_rows(context, n, row.rows);
}

Result<Exported> export_rows(ExportContext& context, int n, const ExportRow& row) {
  if (row.rows == nullptr && row.elementwise == nullptr) {
    return invalid_input(
        "is not exported: networks that read tokens may have the layers of transformers and of "
        "recurrent networks");
  }
  const Node& node = context.graph.nodes[n];
  MANTISSA_ASSIGN(Exported value, row.elementwise != nullptr
                                      ? export_elementwise(context, n, row.elementwise)
                                      : row.rows(context, n));
  value.side = context.input(node).side;
  // Linear and recurrent layers clip the values that they read.
  if (row.saturates) value.name = within_range(context, node.outputs[0], value.name);
  return value;
}

}  // namespace

Result<Exported> export_node(ExportContext& context, int n) {
  const Node& node = context.graph.nodes[n];
  const auto* found = std::find_if(std::begin(kExportRows), std::end(kExportRows),
                                   [&](const ExportRow& row) { return row.op == node.op; });
  const ExportRow row = found == std::end(kExportRows) ? ExportRow{} : *found;
  const std::string reason = reason_against_volumes(context, node);
  if (!reason.empty()) return invalid_input(reason);
  if (context.input(node).is_mantissas()) return export_mantissas(context, n, row);
  return export_rows(context, n, row);
}

}  // namespace mantissa::onnx
