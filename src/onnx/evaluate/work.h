// How much computing a node takes.
#pragma once

#include <cstdint>
#include <vector>

#include "onnx/evaluate/call.h"

namespace mantissa::onnx {

// Multiply-adds in the usual sense: those of convolutions and products of matrices, else 0. Inputs
// and outputs only need shapes; they are null if left out.
int64_t multiply_adds_of(const NodeData& node, const std::vector<const EvaluatedValue*>& inputs,
                         const std::vector<EvaluatedValue>& outputs);

// Bytes that values take.
int64_t bytes_of(const std::vector<EvaluatedValue>& values);

// A measure of time: bytes read and written, multiply-adds and taps of windows.
int64_t work_of(const NodeData& node, const std::vector<const EvaluatedValue*>& inputs,
                const std::vector<EvaluatedValue>& outputs);

}  // namespace mantissa::onnx
