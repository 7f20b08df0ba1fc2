// float16 and bfloat16: operators compute them in float. Each result is rounded once, to nearest,
// ties to even.
#pragma once

#include <deque>
#include <vector>

#include "base/result.h"
#include "onnx/evaluate/call.h"

namespace mantissa::onnx {

bool has_16_bits(ElementType type);

// Numbers of 16 bits as float, and back. The tensors are aligned.
Result<TensorData> widened(const TensorData& tensor);
Result<TensorData> narrowed(const TensorData& tensor, ElementType type);

// Whether the node computes with numbers of 16 bits. Operators that only move numbers do not.
bool computes_halves(const NodeData& node, const std::vector<const EvaluatedValue*>& inputs);
// The inputs as float. `copies` keeps them.
Status widen_inputs(std::vector<const EvaluatedValue*>& inputs, std::deque<EvaluatedValue>& copies);
// Results as the operator's types want them, for the inputs as they were before.
Status narrow_outputs(const NodeData& node, const std::vector<const EvaluatedValue*>& inputs,
                      std::vector<EvaluatedValue>& outputs);

}  // namespace mantissa::onnx
