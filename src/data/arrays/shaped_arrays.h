// Arrays whose examples are no rows: positions with channels, [N, T, C], or pictures of numbers,
// [N, H, W, C], or both with their channels first. Each channel is brought to mean 0 and deviation
// 1. Targets are a class or number for each example, or a class for each position or pixel.
#pragma once

#include "base/result.h"
#include "data/datasets/readers.h"

namespace mantissa {

// Whether the network takes numbers in a shape.
bool wants_shape(const DataOptions& options);

// Finds means and deviations from the training examples, unless the options bring them, and counts
// all splits. Without test examples one in five is kept for testing. Errors: arrays of another
// shape than the network's, or of two possible ones; infinite numbers; targets of another length;
// labels of pixels that are no whole numbers.
Status inspect_shaped(const DataOptions& options, FoundData& found);

// Reads the examples of a split. Notes say how many numbers were clipped.
Result<ExampleSet> read_shaped(const FoundData& found, const FoundSplit& split,
                               const ReadOptions& options);

}  // namespace mantissa
