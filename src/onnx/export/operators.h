// The operators of frozen networks that can be exported, by family; operators.cpp has the table.
#pragma once

#include "base/result.h"
#include "onnx/export/context.h"

namespace mantissa::onnx {

// Adds the operators that compute node n of the network, and returns its output. Errors say why it
// cannot: "adds values whose units differ by more than 2^16".
using ExportFunction = Result<Exported> (*)(ExportContext& context, int n);

// The same for any operator.
Result<Exported> export_node(ExportContext& context, int n);

// A function `row` reads float32 of sequences, the others mantissas, `identity` both.
// operators/arithmetic.cpp
Result<Exported> export_add(ExportContext& context, int n);
Result<Exported> export_subtract(ExportContext& context, int n);
Result<Exported> export_multiply(ExportContext& context, int n);
// operators/attention.cpp
Result<Exported> export_row_attention(ExportContext& context, int n);
// operators/functions.cpp
Result<Exported> export_relu(ExportContext& context, int n);
Result<Exported> export_function_of_value(ExportContext& context, int n);
Result<Exported> export_prelu(ExportContext& context, int n);
Result<Exported> export_row_elu(ExportContext& context, int n);
Result<Exported> export_row_prelu(ExportContext& context, int n);
Result<Exported> export_row_hard_sigmoid(ExportContext& context, int n);
Result<Exported> export_row_leaky_relu(ExportContext& context, int n);
Result<Exported> export_row_relu6(ExportContext& context, int n);
Result<Exported> export_row_silu(ExportContext& context, int n);
Result<Exported> export_row_gelu_tanh(ExportContext& context, int n);
Result<Exported> export_scale(ExportContext& context, int n);
Result<Exported> export_row_scale(ExportContext& context, int n);
// operators/layers.cpp
Result<Exported> export_pixels(ExportContext& context, int n);
Result<Exported> export_numbers(ExportContext& context, int n);
Result<Exported> export_convolution(ExportContext& context, int n);
Result<Exported> export_transposed_convolution(ExportContext& context, int n);
Result<Exported> export_linear(ExportContext& context, int n);
// operators/layout.cpp
Result<Exported> export_identity(ExportContext& context, int n);
Result<Exported> export_concat(ExportContext& context, int n);
Result<Exported> export_row_concat(ExportContext& context, int n);
Result<Exported> export_concat_positions(ExportContext& context, int n);
Result<Exported> export_row_concat_positions(ExportContext& context, int n);
Result<Exported> export_flatten(ExportContext& context, int n);
Result<Exported> export_reshape(ExportContext& context, int n);
Result<Exported> export_row_flatten(ExportContext& context, int n);
Result<Exported> export_pad(ExportContext& context, int n);
Result<Exported> export_slice(ExportContext& context, int n);
Result<Exported> export_row_slice(ExportContext& context, int n);
Result<Exported> export_channel_shuffle(ExportContext& context, int n);
Result<Exported> export_row_reverse(ExportContext& context, int n);
Result<Exported> export_reverse(ExportContext& context, int n);
// operators/depth_taps.cpp
Result<Exported> export_depth_taps(ExportContext& context, int n);
// operators/norms.cpp
Result<Exported> export_scale_offset(ExportContext& context, int n);
Result<Exported> export_row_scale_offset(ExportContext& context, int n);
Result<Exported> export_row_layer_norm(ExportContext& context, int n);
Result<Exported> export_row_rms_norm(ExportContext& context, int n);
Result<Exported> export_group_norm(ExportContext& context, int n);
// operators/pooling.cpp
Result<Exported> export_max_pool(ExportContext& context, int n);
Result<Exported> export_reduce_max(ExportContext& context, int n);
Result<Exported> export_average_pool(ExportContext& context, int n);
Result<Exported> export_global_average(ExportContext& context, int n);
Result<Exported> export_row_mean(ExportContext& context, int n);
// operators/positions.cpp
Result<Exported> export_row_positions(ExportContext& context, int n);
Result<Exported> export_row_sinusoids(ExportContext& context, int n);
Result<Exported> export_row_rotary(ExportContext& context, int n);
Result<Exported> export_row_prepend(ExportContext& context, int n);
// operators/quantised.cpp
Result<Exported> export_quantise(ExportContext& context, int n);
Result<Exported> export_row_quantise(ExportContext& context, int n);
Result<Exported> export_requantised(ExportContext& context, int n);
// operators/recurrent.cpp
Result<Exported> export_row_rnn(ExportContext& context, int n);
Result<Exported> export_row_lstm(ExportContext& context, int n);
Result<Exported> export_row_gru(ExportContext& context, int n);
// operators/reduce.cpp
Result<Exported> export_reduced_mean(ExportContext& context, int n);
Result<Exported> export_reduced_sum(ExportContext& context, int n);
Result<Exported> export_row_reduced_mean(ExportContext& context, int n);
Result<Exported> export_row_reduced_sum(ExportContext& context, int n);
// operators/resize.cpp
Result<Exported> export_upsample(ExportContext& context, int n);
Result<Exported> export_bilinear_resize(ExportContext& context, int n);
// operators/row_places.cpp
Result<Exported> export_gather_rows(ExportContext& context, int n);
Result<Exported> export_row_gather_rows(ExportContext& context, int n);
Result<Exported> export_scatter_rows(ExportContext& context, int n);
Result<Exported> export_row_scatter_rows(ExportContext& context, int n);
// operators/softmax.cpp
Result<Exported> export_softmax(ExportContext& context, int n);
Result<Exported> export_row_softmax(ExportContext& context, int n);
// operators/row_layers.cpp
Result<Exported> export_row_embedding(ExportContext& context, int n);
Result<Exported> export_row_linear(ExportContext& context, int n);

}  // namespace mantissa::onnx
