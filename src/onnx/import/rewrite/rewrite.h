// Functions that exporters spell out are put together again before the import.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "onnx/model.h"

namespace mantissa::onnx {

// Names of constants that the model does not train: Constant nodes, what follows from these alone,
// and initialisers that PyTorch's exporters name like numbers of the program, or like statistics.
std::set<std::string> fixed_constants(const GraphData& graph);

// Makes initialisers of Constant nodes, and of Identity nodes of initialisers.
void lift_constants(GraphData& graph);

// Convolutions lose biases that nodes make of a constant zero.
void leave_out_zero_biases(GraphData& graph);

// SequenceAt of a SplitToSequence becomes Slice, if sizes and number are constants.
void take_sequences_apart(GraphData& graph);

// Operators on whole numbers (QLinearConv, MatMulInteger behind DynamicQuantizeLinear, ...) become
// operators on real numbers. Returns notes that say so.
std::vector<std::string> make_numbers_real(GraphData& graph);

// MatMulNBits of constants becomes MatMul with the real numbers of its weights, and Add. Returns
// notes that say so.
std::vector<std::string> unpack_n_bits(GraphData& graph);

// Leaves out pairs of QuantizeLinear and DequantizeLinear between the nodes of one layer: a product
// and its bias, and a GELU that is spelled out. Returns notes that say so.
std::vector<std::string> leave_out_inner_pairs(GraphData& graph);

// clip(x + 3, 0, 6) / 6 becomes HardSigmoid, x times it HardSwish, and max(x, a * x) LeakyRelu. A
// value less its mean over the root of its variance becomes LayerNormalization, or
// InstanceNormalization if both are over height and width. The nodes that only they read go.
void join_spelled_out_functions(GraphData& graph);

// clip(alpha * x + beta, 0, 1).
struct HardSigmoid {
  double alpha, beta;
  bool is_ours() const;
};
HardSigmoid hard_sigmoid_of(const NodeData& node);

}  // namespace mantissa::onnx
