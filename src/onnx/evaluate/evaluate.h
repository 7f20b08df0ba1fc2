// ONNX networks in float, as their files describe them: plain loops, no fusion, nothing trained.
// Tests compare the results of other parts with it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/system/thread_pool.h"
#include "onnx/evaluate/interpreter.h"
#include "onnx/model.h"

namespace mantissa::onnx {

using Shapes = std::map<std::string, Dims>;
using Tensors = std::map<std::string, TensorData>;

// The inputs that somebody must give: those without an initialiser.
std::vector<const ValueData*> inputs_of(const GraphData& graph);

// Shapes of all inputs: `given`, or the model's. The first dimension counts as 1 if it is open.
// Inputs with other open dimensions are left out.
Shapes input_shapes(const ModelData& model, const Shapes& given = {});

// Facts about a network that need no run.
struct NodeFacts {
  const NodeData* node = nullptr;
  std::vector<EvaluatedValue> outputs;  // types and dims; numbers if they depend on no input
  // Numbers of initialisers with dimensions that no node before has read.
  int64_t parameters = 0;
  int64_t multiply_adds = 0;  // of convolutions and products of matrices
};

struct Survey {
  std::vector<NodeFacts> nodes;  // of the outermost graph, without constants
  std::vector<EvaluatedValue> outputs;
  std::vector<Problem> problems;  // all nodes that cannot be run
  int64_t peak_bytes = 0;         // of all values at once
};

// Errors: an unsupported operator set, memory.
Result<Survey> survey(const ModelData& model, const Shapes& inputs);

// The outputs of the model, in its order, for inputs by name. Errors: inputs that are missing, too
// many, of another type or shape; nodes that are not supported, all of them in one line and before
// anything runs; more memory than there is; an output that is no tensor.
Result<std::vector<TensorData>> evaluate(const ModelData& model, const Tensors& inputs,
                                         ThreadPool& pool);
// The same with sequences and optional values among inputs and outputs.
using NamedValues = std::map<std::string, EvaluatedValue>;
Result<std::vector<EvaluatedValue>> evaluate_values(const ModelData& model,
                                                    const NamedValues& inputs, ThreadPool& pool);

// The same network with fewer nodes. Values that do not depend on the numbers of inputs become
// initialisers. An If on such a condition becomes the nodes of its branch. Identity and Cast to the
// same type go. `values` of the result lists type and dims of every value that is left, as far as
// they follow from the inputs' shapes. Nodes that cannot be run stay as they are.
Result<ModelData> fold_constants(ModelData model, const Shapes& inputs);

// "2 nodes are not supported: ...", grouped by reason; long lists are cut.
std::string describe_problems(const std::vector<Problem>& problems);

}  // namespace mantissa::onnx
