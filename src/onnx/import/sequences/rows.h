// Functions that the operators of sequences share. A value is [positions, channels] in the graph,
// or [channels]. In the model it also has the examples, and these dimensions in any order and
// division.
#pragma once

#include <string_view>

#include "onnx/import/context.h"

namespace mantissa::onnx {

constexpr int64_t kWideBits = 16;

// The input, unless it has a pending factor.
Result<Imported> plain_input(const ImportContext& context, const NodeData& node, size_t index);
// The value's channels, if its last dimension has exactly these.
Result<int64_t> channels_of(const ImportContext& context, const Imported& value);
// Dimensions that the model gives the node's first output.
Result<std::vector<int64_t>> output_dims(const ImportContext& context, const NodeData& node);
// The nodes that read the value, after nodes that only move it; null: it is the model's result.
std::vector<const NodeData*> readers_behind(const ImportContext& context, const std::string& value);
// The bits that the value should have: 16 if a sum or GELU reads it, possibly after nodes that move
// it; else the format's bits (docs/language.md).
int64_t least_bits(const ImportContext& context, const std::string& value);
// The constant factor of a Mul or Div of one number, and the index of the value; nothing if the
// node is no such node.
struct Factor {
  double number;
  size_t value_input;
};
std::optional<Factor> factor_of(const ImportContext& context, const NodeData& node);
// Attention's scores, or probabilities, that the input is; null: it is something else.
const Scores* scores_of(const ImportContext& context, const NodeData& node, size_t index);
// The last position of [positions, channels], as [channels].
Result<int> last_position(ImportContext& context, const std::string& name, int value);

// The network's input of lengths in place of the model's mask.
int lengths_of_mask(ImportContext& context);
// An error if sequences have padding: only attention nodes know about it.
Status check_no_padding(const ImportContext& context);

// rows.cpp
Status import_rows_matmul(ImportContext& context, const NodeData& node);
Status import_rows_gemm(ImportContext& context, const NodeData& node);
Status import_rows_norm(ImportContext& context, const NodeData& node);
Status import_rows_mean(ImportContext& context, const NodeData& node);
Status import_rows_gelu(ImportContext& context, const NodeData& node);
// arithmetic.cpp
Status import_rows_add(ImportContext& context, const NodeData& node);
Status import_rows_multiply(ImportContext& context, const NodeData& node);
Status import_rows_divide(ImportContext& context, const NodeData& node);
// layout.cpp
Status import_rows_reshape(ImportContext& context, const NodeData& node);
Status import_rows_transpose(ImportContext& context, const NodeData& node);
Status import_rows_concat(ImportContext& context, const NodeData& node);
Status import_rows_gather(ImportContext& context, const NodeData& node);
Status import_rows_slice(ImportContext& context, const NodeData& node);
Status import_rows_split(ImportContext& context, const NodeData& node);
Status import_rows_cast(ImportContext& context, const NodeData& node);
// attention.cpp: scores, with a mask that is added or chosen, and the nodes after them.
Status import_scores(ImportContext& context, const NodeData& node);
Status import_attention(ImportContext& context, const NodeData& node);
Status import_softmax(ImportContext& context, const NodeData& node);
Status import_is_nan(ImportContext& context, const NodeData& node);
Status import_where(ImportContext& context, const NodeData& node);
Status scale_scores(ImportContext& context, const NodeData& node, const Factor& factor);
Status mask_scores(ImportContext& context, const NodeData& node, size_t scores_input);
Status import_rows_dropout(ImportContext& context, const NodeData& node);
// recurrent.cpp
Status import_rnn(ImportContext& context, const NodeData& node);
Status import_lstm(ImportContext& context, const NodeData& node);
Status import_gru(ImportContext& context, const NodeData& node);

}  // namespace mantissa::onnx
