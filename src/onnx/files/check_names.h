// Whether names in a graph mean something, which later steps rely on.
#pragma once

#include "base/result.h"
#include "onnx/model.h"

namespace mantissa::onnx {

// Each value is made once (an input may have an initialiser as its default), what a node or an
// output reads was made before, in this graph or those around it: so there is no cycle. Graphs
// within are checked likewise.
Status check_names(const GraphData& graph);

}  // namespace mantissa::onnx
