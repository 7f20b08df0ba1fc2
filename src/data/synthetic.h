// Pictures and texts that are noise, for measuring without a data set.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "data/datasets/dataset.h"
#include "data/text/text.h"

namespace mantissa {

// The name of such a data set.
constexpr const char* kSyntheticData = "synthetic";

// Describes `count` training and as many test pictures. Errors: no pictures, empty ones, more than
// 1 GiB of them, classes not in 1 ... kMaxClasses.
Result<DatasetInfo> synthetic_info(int64_t height, int64_t width, int64_t channels, int64_t classes,
                                   int64_t count);

// The same for texts of a task: `count` examples of `sequence` tokens out of `vocabulary`. Errors:
// one of these below 1, more than kLongestSequence or kMaxClasses, more than 1 GiB of tokens.
Result<DatasetInfo> synthetic_text_info(TextTask task, int64_t sequence, int64_t vocabulary,
                                        int64_t count);

// The training examples, a pure function of (info, seed): uniform pixels and labels; of texts
// uniform tokens, whole lengths, and segments of 0. For a task of masks 15 of 100 labels count.
ExampleSet synthetic_examples(const DatasetInfo& info, uint64_t seed);

}  // namespace mantissa
