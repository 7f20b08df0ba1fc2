// The result of a model as a network with a loss.
#pragma once

#include <string>

#include "base/result.h"
#include "onnx/import/context.h"

namespace mantissa::onnx {

// The graph with a loss between the model's result, which is not defined by all means, and labels.
// Training does not change the import's own parameters.
//
// A single number that no probabilities end with is learned as a number, by
// ops::LossKind::kRegression, if the options name no loss, or the squared error.
Result<Graph> finish(ImportContext& context, const std::string& result);

// Whether a Softmax or LogSoftmax of the value is over its channels.
bool is_over_classes(const ImportContext& context, const NodeData& softmax, const Imported& value);

}  // namespace mantissa::onnx
