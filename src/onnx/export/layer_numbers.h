// The numbers of a layer as ONNX Runtime's integer kernels want them.
#pragma once

#include <cstdint>
#include <vector>

#include "onnx/export/exporter.h"

namespace mantissa::onnx {

// Rows of weights, one for each output channel, in our own order. out = rne(float32(sum + bias) *
// factor), with factor = scale * 2^(exponent of input - exponent of output).
struct LayerNumbers {
  std::vector<int8_t> weights;
  std::vector<int32_t> bias;  // empty: none
  std::vector<float> scales;  // of the weights, by channel; positive
  std::vector<bool> turned;   // by channel: weights and bias have the other sign here
  // In the file: [O, C, H, W] of convolutions and of layers of positions, [C, O, H, W] of
  // transposed convolutions, else [O, C].
  std::vector<int64_t> dims;
  bool is_transposed = false;  // the input's channels come first in the file
  int64_t channels = 0;
  int most_weight = 0;       // the largest magnitude
  int64_t most_sum = 0;      // the largest magnitude that a sum can reach
  bool is_rescaled = false;  // else all factors are powers of two

  bool has_one_scale() const;
};

// The value that a layer reads, and the one that it writes.
struct LayerSurroundings {
  int input_exponent = 0, output_exponent = 0;
  int most_input = 127;  // the largest mantissa
};

// The numbers of a convolution or linear node, rescaled or not.
Result<LayerNumbers> layer_numbers(const ExportedNetwork& network, const Node& node,
                                   const LayerSurroundings& around);

}  // namespace mantissa::onnx
