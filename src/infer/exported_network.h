// A frozen network as onnx/export takes it.
#pragma once

#include "graph/graph.h"
#include "numerics/format.h"
#include "onnx/export/exporter.h"
#include "runtime/state.h"

namespace mantissa {

// A view: the network's numbers stay where they are, in its state.
onnx::ExportedNetwork exported_view(const Graph& graph, const State& state, const Format& format);

}  // namespace mantissa
