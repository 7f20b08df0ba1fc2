// Arrays that the inputs of a network name: an NPZ file with one for each input, or one for each
// split, NAME_train, and with targets. Pictures, numbers, tokens, and lengths of sequences.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "data/datasets/readers.h"

namespace mantissa {

// Whether the network's inputs name arrays.
bool wants_names(const DataOptions& options);

// Finds the arrays of all splits, means and deviations from the training examples, unless the
// options bring them, and counts the splits. Without test examples one in five is kept for testing.
// Errors name the array: one that is missing or twice there, of another type or shape than the
// input's, of another number of examples; infinite numbers; tokens and lengths out of range; errors
// of targets.
Result<FoundData> inspect_named(const std::filesystem::path& path, const DataOptions& options);

// Reads the examples of a split. Positions behind an example's length are 0, whatever the array has
// there. Notes say how many numbers were clipped.
Result<ExampleSet> read_named(const FoundData& found, const FoundSplit& split,
                              const ReadOptions& options);

// The inputs alone, of a file without splits: arrays of the inputs' names.
Result<ExampleSet> read_named_inputs(const std::filesystem::path& path, const TableSchema& schema,
                                     const ReadOptions& options);

}  // namespace mantissa
