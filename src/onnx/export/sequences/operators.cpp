#include "onnx/export/sequences/operators.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

// A function of the row's name, or ONNX's operator of that name for each element of the inputs.
struct SequenceRow {
  const Op* op;
  SequenceFunction function;
  const char* name = nullptr;
  bool saturates = false;  // a residual stream, whose largest numbers a frozen network clips
};

Result<SequenceValue> export_elementwise(SequenceContext& context, int n, const char* name) {
  const Node& node = context.graph.nodes[n];
  MANTISSA_ASSIGN(std::vector<std::string> inputs, inputs_of_one_form(context, node));
  return SequenceValue{context.builder.add(name, output_name(context, node), std::move(inputs)),
                       context.input(node).form};
}

// A change of width alone, or an input's: linear layers quantise their inputs themselves.
Result<SequenceValue> export_same(SequenceContext& context, int n) {
  return context.input(context.graph.nodes[n]);
}

constexpr SequenceRow kSequenceExportRows[] = {
    {&ops::kEmbedding, export_embedding},
    {&ops::kQuantiseInput, export_same, nullptr, true},
    {&ops::kPositionEmbedding, export_positions, nullptr, true},
    {&ops::kLinear, export_linear_rows},
    {&ops::kQuantise, export_few_bits},
    {&ops::kScaleOffset, export_rescaled_rows},
    {&ops::kRnn, export_rnn},
    {&ops::kLstm, export_lstm},
    {&ops::kGru, export_gru},
    {&ops::kReverse, export_reversed_rows},
    {&ops::kLayerNorm, export_layer_norm, nullptr, true},
    {&ops::kRmsNorm, export_rms_norm, nullptr, true},
    {&ops::kAttention, export_attention},
    {&ops::kIdentity, export_same},
    {&ops::kRequantise, export_same},
    {&ops::kFlatten, export_flat_rows},
    {&ops::kReshape, export_flat_rows},
    {&ops::kSlice, export_slice_of_rows},
    {&ops::kConcat, export_concat_of_rows},
    {&ops::kGlobalAveragePool, export_mean_of_rows},
    {&ops::kRescaledGlobalAverage, export_mean_of_rows},
    {&ops::kAdd, nullptr, "Add", true},
    {&ops::kMultiply, nullptr, "Mul"},
    {&ops::kGelu, nullptr, "Gelu"},
    {&ops::kHardSigmoid, export_hard_sigmoid},
    {&ops::kHardSwish, nullptr, "HardSwish"},
    {&ops::kLeakyRelu, export_leaky_relu},
    {&ops::kRelu, nullptr, "Relu"},
    {&ops::kRelu6, export_relu6},
    {&ops::kSigmoid, nullptr, "Sigmoid"},
    {&ops::kSilu, export_silu},
    {&ops::kTanh, nullptr, "Tanh"},
};

}  // namespace

Result<SequenceValue> export_sequence_node(SequenceContext& context, int n) {
  const Op* op = context.graph.nodes[n].op;
  const auto* row = std::find_if(std::begin(kSequenceExportRows), std::end(kSequenceExportRows),
                                 [&](const SequenceRow& each) { return each.op == op; });
  if (row == std::end(kSequenceExportRows)) {
    return invalid_input(
        "is not exported: networks that read tokens may have the layers of transformers and of "
        "recurrent networks");
  }
  MANTISSA_ASSIGN(SequenceValue value, row->name != nullptr
                                           ? export_elementwise(context, n, row->name)
                                           : row->function(context, n));
  value.side = context.input(context.graph.nodes[n]).side;
  // Linear and recurrent layers clip the values that they read.
  if (row->saturates) {
    value.name = within_range(context, context.graph.nodes[n].outputs[0], value.name);
  }
  return value;
}

}  // namespace mantissa::onnx
