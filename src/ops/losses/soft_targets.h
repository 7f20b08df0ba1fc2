// Cross-entropy against distributions that the batch brings, alone or beside labels
// (docs/operators.md).
#pragma once

#include <cstdint>

#include "graph/op.h"
#include "ops/attributes.h"
#include "tensor/tensor.h"

namespace mantissa::ops {

inline constexpr int64_t kOneQ16 = int64_t{1} << 16;

// The whole numbers of distilled_cross_entropy's attributes.
void derive_distilled(SoftLossAttributes& attributes);

// The softmax of rows of logits, int32 or float, divided by a temperature: shares of classes at
// kShareExponent, each to nearest.
void write_shares(const Tensor& logits, double temperature, int16_t* shares);

// inputs: logits [N, ..., classes], targets int16 as the logits, perhaps weights int16 [N, ...].
void soft_loss(const OpContext& c);
void soft_backward(const OpContext& c);

// The same with labels int32 [N, ...] before the targets.
void distilled_loss(const OpContext& c);
void distilled_backward(const OpContext& c);

}  // namespace mantissa::ops
