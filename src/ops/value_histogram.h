// The bin of zeros in the counts of wide values (kHistogramBins in graph/op.h): no other value is
// counted there.
#pragma once

namespace mantissa::ops {

constexpr int kZerosBin = 0;

}  // namespace mantissa::ops
