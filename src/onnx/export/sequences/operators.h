// The operators of networks of sequences that can be exported; operators.cpp has the
// table.
#pragma once

#include "base/result.h"
#include "onnx/export/sequences/context.h"

namespace mantissa::onnx {

// Adds the operators that compute node n of the network, and returns its output. Errors give the
// reason if it cannot.
using SequenceFunction = Result<SequenceValue> (*)(SequenceContext& context, int n);

// The same for any operator.
Result<SequenceValue> export_sequence_node(SequenceContext& context, int n);

// layers.cpp
Result<SequenceValue> export_embedding(SequenceContext& context, int n);
Result<SequenceValue> export_positions(SequenceContext& context, int n);
Result<SequenceValue> export_linear_rows(SequenceContext& context, int n);
// quantised.cpp
Result<SequenceValue> export_few_bits(SequenceContext& context, int n);
Result<SequenceValue> export_rescaled_rows(SequenceContext& context, int n);
// functions.cpp
Result<SequenceValue> export_hard_sigmoid(SequenceContext& context, int n);
Result<SequenceValue> export_leaky_relu(SequenceContext& context, int n);
Result<SequenceValue> export_relu6(SequenceContext& context, int n);
Result<SequenceValue> export_silu(SequenceContext& context, int n);
Result<SequenceValue> export_layer_norm(SequenceContext& context, int n);
Result<SequenceValue> export_rms_norm(SequenceContext& context, int n);
// layout.cpp
Result<SequenceValue> export_flat_rows(SequenceContext& context, int n);
Result<SequenceValue> export_slice_of_rows(SequenceContext& context, int n);
Result<SequenceValue> export_concat_of_rows(SequenceContext& context, int n);
Result<SequenceValue> export_mean_of_rows(SequenceContext& context, int n);
Result<SequenceValue> export_reversed_rows(SequenceContext& context, int n);
// recurrent.cpp
Result<SequenceValue> export_rnn(SequenceContext& context, int n);
Result<SequenceValue> export_lstm(SequenceContext& context, int n);
Result<SequenceValue> export_gru(SequenceContext& context, int n);
// attention.cpp
Result<SequenceValue> export_attention(SequenceContext& context, int n);

}  // namespace mantissa::onnx
