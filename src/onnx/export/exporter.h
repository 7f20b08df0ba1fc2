// A frozen network as an ONNX model of QuantizeLinear and DequantizeLinear that ONNX Runtime
// computes in integers, to the same bits (docs/onnx.md, "Export").
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "onnx/model.h"

namespace mantissa::onnx {

// The numbers of a parameter. Empty exponents: it has none.
struct ExportedParameter {
  std::span<const std::byte> numbers;
  std::span<const int16_t> exponents;
};

// A column of a table: the network reads (x - mean) / deviation.
struct InputColumn {
  double mean = 0, deviation = 1;
};

// A frozen network.
struct ExportedNetwork {
  const Graph* graph = nullptr;
  std::vector<ExportedParameter> parameters;  // as in the graph
  // By value.
  std::vector<int> exponents;      // empty in fp32
  std::vector<int> limits;         // the largest mantissa: 127 of 8 bits
  std::vector<bool> is_wide;       // the layer's unrounded sums, for losses
  std::vector<bool> by_channel;    // each channel has its own exponent
  bool has_row_exponents = false;  // values have an exponent for each row, which follows from it
  // By node: it computes nothing itself, because it is a view, or a ReLU that its input applies.
  std::vector<bool> skipped;
  std::vector<bool> applies_relu;
  // Of rows of numbers, by the input that they are; none: its numbers enter as they are.
  std::map<std::string, std::vector<InputColumn>> columns = {};
};

enum class ExportTarget {
  kOnnxRuntime,  // opset 17, weights as its integer kernels want them
  kPortable,     // opset 21, weights of 4 bits if they fit
};

struct ExportedModel {
  ModelData model;
  // A line for each layer that could have been exported better, and each promise that does not
  // hold.
  std::vector<std::string> notes;
  bool is_near = false;  // some values are near the network's, not equal
};

// The model. An error lists everything that cannot be exported, with the reasons.
//
// For a network of pictures: input `pixels`, uint8 [N, C, H, W]; output `logits`, float32 [N,
// classes], the mantissas * 2^exponent of predict --raw. For rows of numbers: input `columns`,
// float32 [N, columns], not yet standardised; NaN is a missing number. Several pictures and rows of
// numbers: the inputs have the names that they have in the network. Several results: each is an
// output that has the name of the labels or targets that its loss compares it with. Norms of one picture,
// attention and recurrent layers are computed in float32 and rounded to the network's values, so
// results are near then, and a note names these nodes (0142).
//
// For a network that reads sequences: inputs are int64 [batch, sequence]: `input_ids`, and, if the
// network has lengths and segments, `attention_mask` and `token_type_ids`. A translator also has
// `decoder_input_ids`, [batch, decoder_sequence]. If the network reads numbers instead of tokens:
// `numbers`, float32 [batch, sequence, channels]. Output: `last_hidden_state`, float32 [batch,
// sequence, channels], if the network has no classes, else `logits`, [batch, classes] or [batch,
// sequence, classes]. Rows of padding may be anything. Linear layers are computed in integers of 8
// bits, everything else in float: results are close to the network's, not equal (0095, 0102). A
// network of real numbers becomes one of real numbers. Its operator set does not hang on the
// target.
Result<ExportedModel> export_network(const ExportedNetwork& network, ExportTarget target);

}  // namespace mantissa::onnx
