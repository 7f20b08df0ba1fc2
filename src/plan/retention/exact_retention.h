// As retention.h, by an exact solver: to compare with, and for those who have the time. Practical
// up to some fifty values. Errors: as solve (integer_program.h).
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "plan/retention/retention.h"

namespace mantissa {

// The share by which the result may be slower or larger than the optimum.
constexpr double kExactGap = 1e-4;

// The fastest choice whose total stays within the limit; if there is none, the smallest.
Result<RetentionPlan> choose_exactly_within(const RecomputeModel& model, int64_t limit_bytes);

// The choice with the smallest total, however slow it is.
Result<RetentionPlan> choose_exactly_smallest(const RecomputeModel& model);

// The fastest choice within the limit, starting from one within it.
Result<RetentionPlan> improve_exactly(const RecomputeModel& model, int64_t limit_bytes,
                                      const std::vector<Retention>& known);

}  // namespace mantissa
