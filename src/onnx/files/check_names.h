// Whether names in a graph mean something, which later steps rely on.
#pragma once

#include "base/result.h"
#include "onnx/model.h"

namespace mantissa::onnx {

// Each value is made once, except that an input may have an initialiser as its default. A value
// that a node or an output reads was made before, in this graph or one around it, so there is no
// cycle. Inner graphs are checked in the same way.
Status check_names(const GraphData& graph);

}  // namespace mantissa::onnx
