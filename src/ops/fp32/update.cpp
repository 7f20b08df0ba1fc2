// SGD and momentum in fp32, as the integer optimisers define them (docs/decisions/0011).
#include "ops/fp32/fp32.h"

namespace mantissa::ops::fp32 {
namespace {

void apply(const OpContext& c) {
  const ParameterView& p = c.parameters[0];
  const StepScalars& s = *c.scalars;
  const auto scale = static_cast<float>(s.gradient_scale);
  const auto decay = static_cast<float>(p.decays ? s.weight_decay : 0);
  const auto momentum = static_cast<float>(s.momentum), rate = static_cast<float>(s.learning_rate);
  auto *weights = p.mantissa.as<float>(), *velocity = p.moments[0].as<float>();
  const auto* gradient = p.gradient.as<float>();
  for_each(c, p.mantissa.count(), [&](int64_t i) {
    float direction = gradient[i] * scale + decay * weights[i];
    if (velocity != nullptr) velocity[i] = direction += momentum * velocity[i];
    weights[i] -= rate * direction;
  });
}

}  // namespace

const OpFunctions kUpdateSgd = {.forward = apply, .kernel = loops_name};
const OpFunctions kUpdateMomentum = {.forward = apply, .kernel = loops_name};

}  // namespace mantissa::ops::fp32
