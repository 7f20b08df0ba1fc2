// The graph of a frozen network: the trained one with the operators that stand for its own.
#pragma once

#include "base/result.h"
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
  // Everything that rounds does so half up, and no sum of a layer lies on a tie, so that programs
  // with other ways of rounding compute the same (0138).
  kTieFree,
};

// With more than 8 bits in any value or weights kScaleOffset, else the form for the format's ties.
FrozenForm frozen_form(const Graph& graph, const Format& format);

// An error if the network has no such form; it names the node.
Status check_form(const Graph& graph, FrozenForm form);

// The network with the operators that stand for its own (Op::frozen). With kRescaled a layer, the
// batch norm that alone reads it and a ReLU6 that alone reads that are one node, which has the name
// of the layer, and whose output has the name of the last one's.
// kTieFree is TieFreeGraph::graph of that; check_form() found no error.
Graph freeze_graph(const Graph& graph, FrozenForm form = FrozenForm::kScaleOffset);

// The attributes that the op has.
Attributes attributes_of(const Op& op, const Attributes& attributes);

}  // namespace mantissa
