// Nodes that run graphs of their own (control/).
#pragma once

#include <vector>

#include "base/result.h"
#include "onnx/evaluate/interpreter.h"

namespace mantissa::onnx {

// The outputs of such a node. With shapes_only the bodies of loops are walked once or twice, so
// that their problems and the shapes of their states are found; shapes that depend on the number of
// iterations stay open.
Result<std::vector<EvaluatedValue>> run_if(Interpreter& interpreter, const NodeData& node,
                                           const Scope& scope);
Result<std::vector<EvaluatedValue>> run_loop(Interpreter& interpreter, const NodeData& node,
                                             const Scope& scope);
Result<std::vector<EvaluatedValue>> run_scan(Interpreter& interpreter, const NodeData& node,
                                             const Scope& scope);
Result<std::vector<EvaluatedValue>> run_sequence_map(Interpreter& interpreter, const NodeData& node,
                                                     const Scope& scope);

}  // namespace mantissa::onnx
