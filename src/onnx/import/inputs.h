// The inputs of a model, pictures or sequences, in the network.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "onnx/import/context.h"

namespace mantissa::onnx {

// Whether an input is of tokens, [N, T], or of numbers, [N, T, C]; or with these first dimensions
// in the opposite order.
bool is_sequence(const ValueData& input);
// Sets open sizes of an input to the sizes in the options, and its batch to one, or to two of
// sequences, so that all shapes are known.
void choose_sizes(const ImportOptions& options, int batch_axis, SignalAxes signal,
                  ValueData& input);
// Adds the inputs that the model's output depends on to the graph, and defines them.
Status add_inputs(ImportContext& context, std::span<const ValueData* const> inputs);

// mask.cpp: if an input of the model is a mask of padding, makes it a constant. It hides the last
// positions of every second example; with `other`, fewer of them. Returns how many positions each
// example has; empty: there is no mask. All sizes are known.
std::vector<int64_t> take_mask(GraphData& graph, int batch_axis, bool other);

}  // namespace mantissa::onnx
