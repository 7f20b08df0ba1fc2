// Parts of the nodes that run a graph again and again (control.h).
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "onnx/evaluate/interpreter.h"

namespace mantissa::onnx {

using Values = std::vector<EvaluatedValue>;

// The graph of an attribute, or null.
const GraphData* graph_attribute(const NodeData& node, const char* name);

// A value is one or the other: keeps the facts that hold for both.
void keep_common(Values& values, const Values& others);
// The same value without its numbers.
EvaluatedValue shape_of(EvaluatedValue value);

// The outputs of a body for these inputs. With problems in it: nothing known.
Result<Values> run_body(Interpreter& interpreter, const GraphData& body, const Scope& around,
                        Values inputs, size_t outputs);
// The node's inputs from `first` on. False: one of them is not known, since its node has failed.
bool find_inputs(const NodeData& node, const Scope& scope, size_t first, Values& found);
// Tensors of equal dims beside each other along a new axis.
Result<EvaluatedValue> stacked(const Values& parts, int64_t axis, bool reverse);

}  // namespace mantissa::onnx
