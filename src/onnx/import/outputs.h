// The outputs of a model that its network has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "onnx/import/import.h"
#include "onnx/model.h"
#include "ops/loss.h"

namespace mantissa::onnx {

struct ModelResult {
  std::string output;                 // of the model
  std::string value;                  // the value that becomes the network's result
  std::optional<ops::LossKind> loss;  // the loss that the nodes behind the value belong to
  // A softmax at the end, until it is known whether it is over classes and belongs to the loss.
  const NodeData* softmax = nullptr;
  std::string targets = {};  // of several outputs: the name of its labels or targets
};

// The outputs that the options name. A note says which, if the model has others.
Result<std::vector<ModelResult>> chosen_outputs(const GraphData& graph,
                                                const ImportOptions& options,
                                                std::vector<std::string>& notes);

// Takes a result to the value before the operators that a loss computes itself: a softmax at the
// end, or a sigmoid with the nodes behind it that only change shapes.
void leave_to_loss(const GraphData& graph, ModelResult& result, std::vector<std::string>& notes);

// The node belongs to the loss of that kind.
void leave_out(const NodeData& node, ops::LossKind loss, ModelResult& result,
               std::vector<std::string>& notes);

}  // namespace mantissa::onnx
