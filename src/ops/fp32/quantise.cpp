// quantise in fp32: the grid of ops/quantisation/quantise.cpp, its numbers computed in floats. For
// networks with few bits on one side and floats on the other.
#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <numeric>

#include "numerics/rounding.h"
#include "ops/attributes.h"
#include "ops/fp32.h"
#include "ops/quantise_steps.h"

namespace mantissa::ops::fp32 {
namespace {

struct Steps {
  float levels, range, low, high, unit;
  bool learns_within, top_is_outside, bottom_is_outside, has_offset;

  explicit Steps(const OpContext& c) : Steps(c, c.attributes<QuantiseAttributes>()) {}
  Steps(const OpContext& c, const QuantiseAttributes& attributes)
      : unit(std::ldexp(1.0f, attributes.exponent)),
        learns_within(attributes.learns == Learns::kLsq),
        top_is_outside(attributes.learns == Learns::kPact),
        bottom_is_outside(attributes.learns == Learns::kHalfWave),
        has_offset(attributes.offset) {
    const bool is_signed = attributes.is_signed;
    levels = static_cast<float>(quantise_levels(attributes));
    // Training may take a range below zero: the smallest grid takes its place.
    range = std::max(c.parameters[0].mantissa.as<float>()[0], FLT_MIN);
    low = is_signed ? -levels : 0;
    if (has_offset) {
      const float offset = c.parameters[1].mantissa.as<float>()[0];
      low = std::clamp(std::nearbyint(place(offset)), -levels, 0.0f);
    }
    high = is_signed ? levels : low + levels;
  }

  float place(float x) const { return x * levels / range; }
  bool is_below(float v) const { return bottom_is_outside ? v <= low : v < low; }
  bool is_above(float v) const { return top_is_outside ? v >= high : v > high; }
  bool is_within(float v) const { return !is_below(v) && !is_above(v); }
  float step(float v) const { return std::clamp(std::nearbyint(v), low, high); }
  // The derivative of range / levels * u by range, times levels.
  float range_factor(float v) const {
    if (is_above(v)) return levels;
    if (is_below(v)) return has_offset ? 0 : low;
    return learns_within ? step(v) - v : 0;
  }
};

void forward(const OpContext& c) {
  const Steps steps(c);
  const auto* in = c.inputs[0].as<float>();
  auto* out = c.output().as<float>();
  for_each(c, c.output().count(),
           [&](int64_t i) { out[i] = steps.unit * steps.step(steps.place(in[i])); });
}

void backward_input(const OpContext& c) {
  const Steps steps(c);
  const float slope = steps.unit * steps.levels / steps.range;
  const auto *in = c.inputs[0].as<float>(), *grad = c.grad_output().as<float>();
  auto* out = c.grad_inputs[0].as<float>();
  for_each(c, c.grad_output().count(), [&](int64_t i) {
    out[i] = steps.is_within(steps.place(in[i])) ? slope * grad[i] : 0.0f;
  });
}

template <typename Factor>
void add_gradient(const OpContext& c, const Steps& steps, int parameter, const Factor& factor) {
  const Tensor& gradient = c.parameters[parameter].gradient;
  if (gradient.data == nullptr) return;
  const auto *in = c.inputs[0].as<float>(), *grad = c.grad_output().as<float>();
  std::array<double, kernels::kMaximumParts> partial = {};
  const int64_t parts =
      kernels::parallel_ranges(*c.kernel.pool, c.grad_output().count(), kFloatsPerThread,
                               [&](int64_t begin, int64_t end, int64_t part) {
                                 double sum = 0;
                                 for (int64_t i = begin; i < end; ++i)
                                   sum += grad[i] * factor(steps.place(in[i]));
                                 partial[part] = sum;
                               });
  const double sum = std::accumulate(partial.begin(), partial.begin() + parts, 0.0);
  gradient.as<float>()[0] += static_cast<float>(sum * steps.unit / steps.range);
}

void backward_weights(const OpContext& c) {
  const Steps steps(c);
  add_gradient(c, steps, 0, [&](float v) { return steps.range_factor(v); });
  if (!steps.has_offset) return;
  add_gradient(c, steps, 1, [&](float v) { return steps.is_within(v) ? 0.0f : steps.levels; });
}

}  // namespace

const OpRows kQuantise = {.forward = {.run = forward},
                          .grad_input = {.run = backward_input},
                          .grad_weights = {.run = backward_weights},
                          .kernel = loops_name};

}  // namespace mantissa::ops::fp32
