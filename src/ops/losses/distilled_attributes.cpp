// Real attributes of losses as the whole numbers that steps read, once, before the first step.
#include "numerics/nearest_fraction.h"
#include "ops/losses/contrastive.h"
#include "ops/losses/dice.h"
#include "ops/losses/soft_targets.h"
#include "ops/losses/triplets.h"

namespace mantissa::ops {

void derive_distilled(SoftLossAttributes& attributes) {
  const double temperature = attributes.temperature, teacher = attributes.teacher_weight;
  attributes.temperature_q16 = nearest_whole(temperature, kOneQ16);
  attributes.label_q16 = kOneQ16 - nearest_whole(teacher, kOneQ16);
  attributes.soft_gradient_q16 = nearest_whole(teacher * temperature, kOneQ16);
  attributes.soft_loss_q16 = nearest_whole(teacher * temperature * temperature, kOneQ16);
}

void derive_dice(DiceAttributes& attributes) {
  attributes.smooth_q24 = nearest_whole(attributes.smooth, int64_t{1} << 24);
  attributes.cross_entropy_q16 = nearest_whole(attributes.cross_entropy, kOneQ16);
}

void derive_contrastive(ContrastiveAttributes& attributes) {
  constexpr double kLog2E = 1.44269504088896340736;
  attributes.log2_q23 = nearest_whole(kLog2E / attributes.temperature, int64_t{1} << 23);
}

void derive_triplets(TripletAttributes& attributes) {
  attributes.half_q30 = nearest_whole(attributes.margin, int64_t{1} << 29);
}

}  // namespace mantissa::ops
