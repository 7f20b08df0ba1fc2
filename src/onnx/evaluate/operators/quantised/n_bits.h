// Weights of few bits in blocks, as MatMulNBits of com.microsoft has them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "onnx/model.h"

namespace mantissa::onnx {

// Weights [columns, depth] of 2, 4 or 8 bits. Each `block` weights of a column have a scale and a
// zero point, the last perhaps fewer.
struct NBits {
  int64_t depth = 0, columns = 0, bits = 0, block = 0;
  int64_t blocks() const { return (depth + block - 1) / block; }  // of a column
};

struct NBitsTensors {
  const TensorData *numbers, *scales;
  const TensorData* zeros;  // null: half of the numbers lie below zero
};

// The node's attributes; an error for other bits and blocks.
Result<NBits> n_bits_of(const NodeData& node);

// An error if the tensors have other types or other numbers of elements.
Status check_n_bits(const NBits& n, const NBitsTensors& tensors);

// (number - zero point) * scale, rounded to float32 once: [columns, depth].
std::vector<float> unpacked(const NBits& n, const NBitsTensors& tensors);

}  // namespace mantissa::onnx
