// Weights predicted for the time of a later update. Pipelines compute with them in place of weights
// that will be old by then. Source: METHODS section 5.
//
// W_predicted = W - rate * missed * v. `missed` is the number of updates until then, `rate` the
// learning rate of that update's step. v is known to the optimiser already: its velocity, or Adam's
// step m / (sqrt(v) + epsilon) with the corrections of the updates that were made. In integers,
// with V = (W << shift) - A of the lazy update (numerics/lazy_update.h):
//   r           = rate * rate_factor * missed as a fixed-point number of 31 bits, nearest even
//   u           = rescale_rhu(v * r)                    in the accumulator's unit, as in an update
//   W_predicted = clip(W - ((A + u + half) >> shift))   half = 2^(shift - 1); without accumulator
//                                                       W - u
// The unit is W's. Updates that round stochastically are predicted half up.
#pragma once

#include "graph/op.h"

namespace mantissa::ops {

// Writes predicted mantissas, of the same type as the parameter's. The context is the context of
// its update, by the optimiser that the function belongs to, with the scalars of the step that they
// are predicted for; missed > 0. Nothing else is changed.
using PredictWeights = void (*)(const OpContext& update, int missed, std::byte* predicted);

struct WeightPrediction {
  PredictWeights integers, fp32;
};

extern const WeightPrediction kPredictByVelocity;
extern const WeightPrediction kPredictByAdam;

namespace fp32 {
void predict_by_velocity(const OpContext& update, int missed, std::byte* predicted);
void predict_by_adam(const OpContext& update, int missed, std::byte* predicted);
}  // namespace fp32

}  // namespace mantissa::ops
