// Which values of the forward pass are kept for the backward pass and which are computed again:
// chosen by cost, under a limit of memory. Source: Recompute; METHODS section 4.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/retention/recompute_model.h"

namespace mantissa {

struct RetentionPlan {
  std::vector<Retention> choice;  // by value of the model
  RecomputeModel::Outcome outcome;
};

// Keeps every value that the backward pass reads, and no other.
std::vector<Retention> keep_all(const RecomputeModel& model);

// The fastest choice found whose total stays within the limit; if none is found, the smallest,
// which is above it.
RetentionPlan choose_within(const RecomputeModel& model, int64_t limit_bytes);

// The same by a shorter search, from a choice for a similar model or a somewhat higher limit.
RetentionPlan choose_near(const RecomputeModel& model, int64_t limit_bytes,
                          const std::vector<Retention>& near);

// The choice with the smallest total that is found, however slow it is.
RetentionPlan choose_smallest(const RecomputeModel& model);

// Recompute's literal rule ([0014], [0015]), from the first value to the last: a value X computed
// from `in` is not kept if load(in) + compute(X) < load(X); then `in` is kept. A load takes the
// bytes from where they lie when the backward pass comes back: on the chip, in a cache or in
// memory. For an activation `in` is the convolution's output or, if batch norm is inverted, batch
// norm's.
RetentionPlan choose_literally(const RecomputeModel& model);

}  // namespace mantissa
