// The results of a model as a network with losses.
#pragma once

#include <vector>

#include "base/result.h"
#include "onnx/import/context.h"
#include "onnx/import/outputs.h"

namespace mantissa::onnx {

// The graph with a loss between each of the model's results, which is not defined by all means, and
// its labels. Training does not change the import's own parameters.
//
// A single number that no probabilities end with is learned as a number, by
// ops::LossKind::kRegression, if the options name no loss, or the squared error. With several
// results the squared error is a loss of numbers.
Result<Graph> finish(ImportContext& context, const std::vector<ModelResult>& results);

// Whether a Softmax or LogSoftmax of the value is over its channels.
bool is_over_classes(const ImportContext& context, const NodeData& softmax, const Imported& value);

}  // namespace mantissa::onnx
