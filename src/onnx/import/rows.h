// Functions that the operators of rows share. A value is [positions, channels] in the graph, or
// [channels]. In the model it also has the examples, and these dimensions in any order and
// division.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "onnx/import/context.h"

namespace mantissa::onnx {

constexpr int64_t kWideBits = 16;

// The input without a pending factor: a `rescale`, which is not trained, multiplies rows by it.
Result<Imported> plain_input(ImportContext& context, const NodeData& node, size_t index);
// The same of any rows.
Result<Imported> without_factor(ImportContext& context, Imported rows);
// The value's channels, if its last dimension has exactly these.
Result<int64_t> channels_of(const ImportContext& context, const Imported& value);
// Whether a dimension of rows is their positions.
bool is_of_positions(const ImportContext& context, const Imported& value, int64_t axis);
// Whether the value is an image of one row, [N, C, T].
bool has_positions(const ImportContext& context, const Imported& value);
// The positions of these places, in their order, of a value whose dimension `axis` they are
// (operators/slices.cpp, like the function before).
Result<Imported> positions_at(ImportContext& context, const NodeData& node, Imported value,
                              int64_t axis, std::vector<int64_t> places);
// Dimensions that the model gives the node's first output.
Result<std::vector<int64_t>> output_dims(const ImportContext& context, const NodeData& node);
// An axis that may be negative, counted from the front.
Result<int64_t> checked_axis(int64_t axis, int64_t rank);
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
// The last position of [positions, channels], as [channels].
Result<int> last_position(ImportContext& context, const std::string& name, int value);

// Attention's scores, or probabilities, that the input is; null: it is something else
// (operators/attention.cpp, like the next five).
const Scores* scores_of(const ImportContext& context, const NodeData& node, size_t index);
Status import_scores(ImportContext& context, const NodeData& node);
Status import_attention(ImportContext& context, const NodeData& node);
Status scale_scores(ImportContext& context, const NodeData& node, const Factor& factor);
Status mask_scores(ImportContext& context, const NodeData& node, size_t scores_input);
// Scores below this count as masked: their exponential is 0.
constexpr double kMasked = -1e4;
// Takes a constant [1, heads or 1, positions, positions] into the scores, as a bias for each head
// and distance: along a sequence, or else in a picture of any size that has so many positions
// (operators/attention_bias.cpp).
Status add_bias(const std::vector<int64_t>& dims, const std::vector<double>& numbers,
                int64_t positions, int64_t heads, Scores& scores);
// Passes the scores on, without the node's dropout.
Status drop_scores(ImportContext& context, const NodeData& node);

// The node as a table (operators/tables.cpp): of rows by tokens, its input 1, or of a constant for
// each position and channel, which is added to its input of that index.
Status add_embedding(ImportContext& context, const NodeData& node, const TensorData& table);
Status add_table(ImportContext& context, const NodeData& node, size_t value_input,
                 const TensorData& tensor);

// Makes rows of the pictures that the node reads, if it works on rows (picture_rows.cpp).
Status turn_pictures_into_rows(ImportContext& context, const NodeData& node);

// The network's input of lengths in place of the model's mask (mask.cpp, like the next).
int lengths_of_mask(ImportContext& context);
// An error if sequences have padding: only attention nodes know about it.
Status check_no_padding(const ImportContext& context);

}  // namespace mantissa::onnx
