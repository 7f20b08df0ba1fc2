// Parts of batch norm for other files: its fp32 form takes the running statistics; freezing takes
// the scale and offset that they give.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/op.h"
#include "ops/norms/channel_affine.h"

namespace mantissa::ops {

constexpr double kBatchNormEpsilon = 1e-5;  // added to variances, in real units

// Refuses micro-batches whose sums over all rows would not be exact.
Status check_batch_norm(const OpShapes& shapes);

// running += momentum * (batch - running) for means and variances, once per micro-batch, in order;
// the context's statistics hold a record per micro-batch: means, then variances, as double.
void update_running_statistics(const OpContext& context);

// Scale and offset of a channel, in real units, from the running statistics of a context that has
// its four parameters.
ChannelAffine running_affine(const OpContext& context, int64_t channel);

}  // namespace mantissa::ops
