// Holding examples back from training.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "data/datasets/dataset.h"

namespace mantissa {

// Takes `count` of the examples out of `images` and returns them: the last ones of a permutation
// that is a function of the seed alone. Both keep the order that they had. 0 <= count <
// images.count. An error if there is no memory for the second set.
Result<ImageSet> split_off(ImageSet& images, uint64_t seed, int64_t count);

// Bytes that the split holds, for the memory plan; example_bytes are the bytes of a picture.
int64_t split_bytes(int64_t count, int64_t example_bytes);

}  // namespace mantissa
