// Parts of batch norm for others: its fp32 form takes the running statistics, freezing the way from
// them to the integers of scale_offset.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/op.h"
#include "numerics/real.h"

namespace mantissa::ops {

constexpr double kBatchNormEpsilon = 1e-5;  // added to variances, in real units

// Refuses micro-batches whose sums over all rows would not be exact.
Status check_batch_norm(const OpShapes& shapes);

// running += momentum * (batch - running) for means and variances, once per micro-batch, in order;
// the context's statistics hold a record per micro-batch: means, then variances, as double.
void update_running_statistics(const OpContext& context);

// scale * x + offset of a channel, in real units, from the running statistics of a context that has
// its four parameters.
struct RunningAffine {
  Real scale, offset;
};
RunningAffine running_affine(const OpContext& context, int64_t channel);

// Writes multiplier and offset ([channels]) of scale_offset for a batch norm whose context has its
// four parameters, its input's exponents and no training mode; returns their exponent k:
// y = (q * multiplier + offset) * 2^k. Rounded to nearest even (METHODS section 0).
int freeze_batch_norm(const OpContext& context, int32_t* multiplier, int64_t* offset);

}  // namespace mantissa::ops
