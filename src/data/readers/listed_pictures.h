// Splits whose pictures are files, each with a label.
#pragma once

#include "base/result.h"
#include "data/datasets/readers.h"

namespace mantissa {

// Reads the headers of a split's files, in parallel, and takes unreadable ones out of it.
Status inspect_headers(FoundSplit& split, int threads, FoundData& found);

// Reads the pictures of a split.
Result<ExampleSet> read_listed(const FoundData& found, const FoundSplit& split,
                               const ReadOptions& options);

}  // namespace mantissa
