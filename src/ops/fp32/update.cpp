// Optimisers in fp32, as the integer ones define them (docs/decisions/0011).
#include <cmath>

#include "numerics/adam.h"
#include "ops/fp32.h"
#include "ops/updates/predict_weights.h"
#include "ops/updates/update_parts.h"

namespace mantissa::ops::fp32 {
namespace {

// Everything that optimisers take from the context.
struct Step {
  float* weights;
  const float* gradient;
  float scale, decay, rate;

  explicit Step(const OpContext& c)
      : weights(c.parameters[0].mantissa.as<float>()),
        gradient(c.parameters[0].gradient.as<float>()),
        scale(static_cast<float>(c.step.scalars->gradient_scale * c.step.totals->gradient_factor)),
        decay(static_cast<float>(c.parameters[0].decays ? c.step.scalars->weight_decay : 0)),
        rate(static_cast<float>(c.step.scalars->learning_rate * c.parameters[0].rate_factor)) {}

  float decayed(int64_t i) const { return gradient[i] * scale + decay * weights[i]; }
};

void sgd(const OpContext& c) {
  const Step step(c);
  for_each(c, c.parameters[0].mantissa.count(),
           [&](int64_t i) { step.weights[i] -= step.rate * step.decayed(i); });
}

void momentum(const OpContext& c, bool look_ahead) {
  const Step step(c);
  const auto factor = static_cast<float>(c.step.scalars->momentum);
  auto* velocity = c.parameters[0].moments[0].as<float>();
  for_each(c, c.parameters[0].mantissa.count(), [&](int64_t i) {
    const float gradient = step.decayed(i);
    velocity[i] = gradient + factor * velocity[i];
    step.weights[i] -= step.rate * (look_ahead ? gradient + factor * velocity[i] : velocity[i]);
  });
}

void adam(const OpContext& c, bool decoupled) {
  const Step step(c);
  const StepScalars& s = *c.step.scalars;
  const ParameterView& p = c.parameters[0];
  const kernels::FloatAdam args = {
      .weights = step.weights,
      .first = p.moments[0].as<float>(),
      .root = p.moments[1].as<float>(),
      .gradient = step.gradient,
      .scale = step.scale,
      .decay = step.decay,
      .rate = step.rate,
      .beta1 = static_cast<float>(s.beta1),
      .beta2 = static_cast<float>(s.beta2),
      .first_part = static_cast<float>(1 - power(s.beta1, s.step + 1)),
      .root_part = static_cast<float>(std::sqrt(1 - power(s.beta2, s.step + 1))),
      .epsilon = static_cast<float>(s.epsilon),
      .decoupled = decoupled};
  for_ranges(c, p.mantissa.count(),
             [&](int64_t begin, int64_t end) { c.kernel.table->floats->adam(args, begin, end); });
}

void gradient_norm(const OpContext& c) {
  double sum = 0;
  for (const ParameterView& p : c.parameters) {
    const auto* gradient = p.gradient.as<float>();
    for (int64_t i = 0; i < p.gradient.count(); ++i) {
      sum += static_cast<double>(gradient[i]) * gradient[i];
    }
  }
  note_gradient_norm(c, Real(sum));
}

float missed_rate(const OpContext& c, int missed) {
  return static_cast<float>(missed) *
         static_cast<float>(c.step.scalars->learning_rate * c.parameters[0].rate_factor);
}

}  // namespace

void predict_by_velocity(const OpContext& c, int missed, std::byte* predicted) {
  const ParameterView& p = c.parameters[0];
  const float rate = missed_rate(c, missed);
  const auto *weights = p.mantissa.as<float>(), *velocity = p.moments[0].as<float>();
  auto* to = reinterpret_cast<float*>(predicted);
  for_each(c, p.mantissa.count(), [&](int64_t i) { to[i] = weights[i] - rate * velocity[i]; });
}

void predict_by_adam(const OpContext& c, int missed, std::byte* predicted) {
  const ParameterView& p = c.parameters[0];
  const StepScalars& s = *c.step.scalars;
  const int64_t updates = s.step - missed;
  const float rate = missed_rate(c, missed);
  const auto first_part = static_cast<float>(1 - power(s.beta1, updates));
  const auto root_part = static_cast<float>(std::sqrt(1 - power(s.beta2, updates)));
  const auto epsilon = static_cast<float>(s.epsilon);
  const auto *weights = p.mantissa.as<float>(), *first = p.moments[0].as<float>(),
             *root = p.moments[1].as<float>();
  auto* to = reinterpret_cast<float*>(predicted);
  for_each(c, p.mantissa.count(), [&](int64_t i) {
    const float size = updates > 0 ? root[i] / root_part + epsilon : 0.0f;
    to[i] = weights[i] - (size > 0 ? rate * (first[i] / first_part / size) : 0.0f);
  });
}

const OpRows kUpdateSgd = {.forward = {.run = sgd}, .kernel = loops_name};
const OpRows kUpdateMomentum = {.forward = {.run = [](const OpContext& c) { momentum(c, false); }},
                                .kernel = loops_name};
const OpRows kUpdateNesterov = {.forward = {.run = [](const OpContext& c) { momentum(c, true); }},
                                .kernel = loops_name};
const OpRows kUpdateAdam = {.forward = {.run = [](const OpContext& c) { adam(c, false); }},
                            .kernel = floats_name};
const OpRows kUpdateAdamW = {.forward = {.run = [](const OpContext& c) { adam(c, true); }},
                             .kernel = floats_name};
const OpRows kGradientNorm = {.forward = {.run = gradient_norm}, .kernel = loops_name};

}  // namespace mantissa::ops::fp32
