// The examples of an input's array, checked and as a network takes them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/arrays/channel_numbers.h"
#include "data/datasets/readers.h"
#include "data/tables/table_schema.h"
#include "formats/arrays/npy.h"

namespace mantissa {

// The lengths of an array of them, [N] or [N, 1]: whole numbers from 1 to the input's limit.
Result<std::vector<int32_t>> lengths_in(const FoundSplit& split, const NpyArray& array,
                                        const ArrayInput& input);

// Checks the array's type and shape, and says whether its channels come first.
Result<bool> check_array(const FoundSplit& split, const NpyArray& array, const ArrayInput& input,
                         ChannelAxis axis);

// Appends the examples of the split's part to the tensor of the input. `lengths` are those of the
// sequence; empty: all positions count. The array has been checked. Errors: tokens out of range,
// infinite numbers.
Result<ChangedNumbers> append_input(const FoundSplit& split, const NpyArray& array,
                                    const ArrayInput& input, std::span<const int32_t> lengths,
                                    StoredTensor& tensor);

}  // namespace mantissa
