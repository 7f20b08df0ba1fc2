// Functions that the operators of rows share.
#pragma once

#include <string>
#include <vector>

#include "onnx/export/context.h"

namespace mantissa::onnx {

// The tensors that the node reads. An error if some are sequences and others vectors, or of
// another sequence.
Result<std::vector<std::string>> inputs_of_one_form(const ExportContext& context, const Node& node);

// The tensor with the form of the node's first input.
Exported with_form(const ExportContext& context, const Node& node, std::string tensor);

// The value within the network's range for it, as a frozen network with fixed exponents clips it.
std::string within_range(ExportContext& context, int value, const std::string& tensor);

// Whether recurrent layers alone read the value, as the input's part of their gates.
bool feeds_gates_alone(const ExportContext& context, int value);

// 1 of a mask's padding, 0 of other positions: float32 [batch, sequence].
std::string padding(ExportBuilder& to, const std::string& mask);

// 0, 1, ... up to the sequence's length: int64 [sequence]. `length` is the network's own number of
// positions, for models whose sequences have no other.
std::string positions(ExportContext& context, Side side, int64_t length);

// An error if input i of the node, the lengths, belongs to another sequence.
Status check_lengths(const ExportContext& context, const Node& node, size_t i, Side side);

}  // namespace mantissa::onnx
