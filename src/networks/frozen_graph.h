// The graph of a frozen network: the trained one with the operators that stand for its own.
#pragma once

#include "graph/graph.h"
#include "numerics/format.h"

namespace mantissa {

// How a frozen network computes a batch norm, and means.
enum class FrozenForm {
  // A batch norm multiplies and adds on its own (scale_offset), with 31 bits.
  kScaleOffset,
  // A batch norm after a layer becomes part of the rescaling of the layer's sums, by a float32
  // multiplier for each channel. ONNX Runtime computes the same, to the bit (0065).
  kRescaled,
};

// kRescaled if all values and weights have at most 8 bits.
FrozenForm frozen_form(const Graph& graph, const Format& format);

// The network with the operators that stand for its own (Op::frozen). With kRescaled a layer, the
// batch norm that alone reads it and a ReLU6 that alone reads that are one node, which has the name
// of the layer, and whose output has the name of the last one's.
Graph freeze_graph(const Graph& graph, FrozenForm form = FrozenForm::kScaleOffset);

}  // namespace mantissa
