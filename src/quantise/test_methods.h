// The training methods, for tests.
#pragma once

#include <vector>

#include "quantise/starts.h"

namespace mantissa::quantise {

inline const std::vector<TrainingMethod> kMethods = {
    TrainingMethod::kWrpn,    TrainingMethod::kDorefa,
    TrainingMethod::kPact,    TrainingMethod::kHalfWaveGaussian,
    TrainingMethod::kUniform, TrainingMethod::kLsq,
    TrainingMethod::kLsqPlus};

inline bool has_tangents(TrainingMethod method) {
  return method == TrainingMethod::kDorefa || method == TrainingMethod::kPact;
}
inline bool is_lsq(TrainingMethod method) {
  return method == TrainingMethod::kLsq || method == TrainingMethod::kLsqPlus;
}

}  // namespace mantissa::quantise
