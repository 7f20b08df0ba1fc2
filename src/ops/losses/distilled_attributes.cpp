#include "numerics/nearest_fraction.h"
#include "ops/losses/soft_targets.h"

namespace mantissa::ops {

void derive_distilled(SoftLossAttributes& attributes) {
  const double temperature = attributes.temperature, teacher = attributes.teacher_weight;
  attributes.temperature_q16 = nearest_whole(temperature, kOneQ16);
  attributes.label_q16 = kOneQ16 - nearest_whole(teacher, kOneQ16);
  attributes.soft_gradient_q16 = nearest_whole(teacher * temperature, kOneQ16);
  attributes.soft_loss_q16 = nearest_whole(teacher * temperature * temperature, kOneQ16);
}

}  // namespace mantissa::ops
