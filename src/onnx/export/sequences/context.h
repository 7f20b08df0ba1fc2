// The state of an export of a network of sequences, shared by its families of operators.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "onnx/export/builder.h"
#include "onnx/export/exporter.h"

namespace mantissa::onnx {

// The model's inputs and outputs, by the names that transformers' exports have.
inline constexpr const char* kInputIds = "input_ids";            // int64 [batch, sequence]
inline constexpr const char* kAttentionMask = "attention_mask";  // the same: 1, or 0 of padding
inline constexpr const char* kTokenTypeIds = "token_type_ids";   // the same
inline constexpr const char* kNumbers = "numbers";  // float32 [batch, sequence, channels]
// The same as tokens and mask, of a translator's target: int64 [batch, decoder_sequence].
inline constexpr const char* kDecoderInputIds = "decoder_input_ids";
inline constexpr const char* kDecoderAttentionMask = "decoder_attention_mask";
inline constexpr const char* kLastHiddenState = "last_hidden_state";
inline constexpr const char* kSequenceLogits = "logits";

// The sequence whose positions a value has. Networks that read one have the source alone.
enum class Side : uint8_t { kSource, kTarget };

// The name of its open number of positions.
inline const char* length_name(Side side) {
  return side == Side::kSource ? "sequence" : "decoder_sequence";
}

// A float32 tensor of the model; the network's inputs may have other types.
struct SequenceValue {
  enum class Form {
    kRows,    // [batch, sequence, channels]
    kVector,  // [batch, channels]
    kFlat,    // rows one after the other, whose number is open: [batch, sequence * channels]
    kTokens,  // int64 [batch, sequence]
    kMask,    // the same: 1, or 0 of padding
  };
  std::string name;
  Form form = Form::kRows;
  Side side = Side::kSource;
  bool repeats_last = false;  // padding has the row before it, so the last row is no padding
};

struct SequenceContext {
  const ExportedNetwork& network;
  const Graph& graph;
  std::vector<std::vector<int>> readers;  // by value
  ExportBuilder builder;
  std::vector<std::optional<SequenceValue>> values;  // by value; nothing: not made yet, or refused

  const SequenceValue& input(const Node& node, size_t i = 0) const {
    return *values[static_cast<size_t>(node.inputs[i])];
  }
  const Shape& shape(int value) const { return graph.values[value].shape; }
  // Whether the model has a mask of that sequence.
  bool has_padding(Side side) const {
    const char* mask = side == Side::kSource ? kAttentionMask : kDecoderAttentionMask;
    return std::any_of(builder.graph.inputs.begin(), builder.graph.inputs.end(),
                       [&](const ValueData& input) { return input.name == mask; });
  }
};

// The tensor of the node's output.
std::string output_name(const SequenceContext& context, const Node& node);

// The tensors that the node reads. An error if some are sequences and others vectors, or of
// another sequence.
Result<std::vector<std::string>> inputs_of_one_form(const SequenceContext& context,
                                                    const Node& node);

// The value within the network's range for it, as a frozen network with fixed exponents clips it.
std::string within_range(SequenceContext& context, int value, const std::string& tensor);

// The numbers of a parameter.
std::vector<float> real_numbers(const SequenceContext& context, int parameter);

// The same as a float32 constant of its name and shape.
std::string real_parameter(SequenceContext& context, int parameter);

// The scales of a parameter's mantissas, one for each row or one for all: float32 [scales, 1].
std::string row_scales(SequenceContext& context, int parameter);

// One for each row: float32 [rows].
std::string column_scales(SequenceContext& context, int parameter);

// The mantissas of weights or of a table as a constant, int8 [rows, columns]. An error if they
// have more than 8 bits.
Result<std::string> byte_rows(SequenceContext& context, int parameter);

// The mantissas or real numbers of weights, int8 or float32 [columns, rows]. The same error.
Result<std::string> transposed_parameter(SequenceContext& context, int parameter);

// The weights of gates, [gates * n, columns], with the gates in another order: float32 [1, gates *
// n, columns], a constant or DequantizeLinear of one. The same error. `name` is the operator's,
// whose order of gates it is.
Result<std::string> weights_of_gates(SequenceContext& context, int parameter,
                                     const std::vector<int64_t>& order, const std::string& name);

// Whether recurrent layers alone read the value, as the input's part of their gates.
bool feeds_gates_alone(const SequenceContext& context, int value);

// 1 of a mask's padding, 0 of other positions: float32 [batch, sequence].
std::string padding(ExportBuilder& to, const std::string& mask);

// 0, 1, ... up to the sequence's length: int64 [sequence].
std::string positions(SequenceContext& context, Side side);

// An error if input i of the node, the lengths, belongs to another sequence.
Status check_lengths(const SequenceContext& context, const Node& node, size_t i, Side side);

// Whether numbers are real, without exponents.
inline bool is_real(const ExportedParameter& parameter) { return parameter.exponents.empty(); }

}  // namespace mantissa::onnx
