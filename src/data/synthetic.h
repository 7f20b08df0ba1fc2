// Pictures that are noise, for measuring without a data set.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "data/dataset.h"

namespace mantissa {

// The name of such a data set.
constexpr const char* kSyntheticData = "synthetic";

// Describes `count` training and as many test pictures. Errors: no pictures, empty ones, more than
// 1 GiB of them, classes not in 1 ... kMaxClasses.
Result<DatasetInfo> synthetic_info(int64_t height, int64_t width, int64_t channels, int64_t classes,
                                   int64_t count);

// The training pictures: uniform pixels and labels, a pure function of (info, seed).
ImageSet synthetic_images(const DatasetInfo& info, uint64_t seed);

}  // namespace mantissa
