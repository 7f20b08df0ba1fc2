#include "ops/updates/predict_weights.h"

#include <algorithm>
#include <cstring>

#include "numerics/lazy_update.h"
#include "ops/updates/update_parts.h"

namespace mantissa::ops {
namespace {

// The rate of a direction, for all updates that are missed: multiplier * 2^-shift.
struct Rate {
  int64_t multiplier;
  int shift;
};

Rate rate_of(const OpContext& c, int missed) {
  const Real rate =
      Real(c.step.scalars->learning_rate) * Real(c.parameters[0].rate_factor) * Real(missed);
  const int shift = fixed_point_shift(rate, 31);
  return {to_fixed_point(rate, shift, mantissa_limit(32)), shift};
}

// Weights of one block; v = direction(i), of `update_shift` bits below the accumulator's unit when
// multiplied by the rate.
template <typename Weight, typename Direction>
void predict_block(const ParameterView& p, int64_t multiplier, int update_shift, int64_t begin,
                   int64_t end, const Direction& direction, Weight* predicted) {
  const auto* weights = p.mantissa.as<Weight>();
  const auto* accumulator = p.accumulator.as<int16_t>();
  const int shift = p.lazy_shift, bits = p.mantissa.bits;
  const bool is_plain = p.grid.bits == 0 || p.grid.is_plain();
  for (int64_t i = begin; i < end; ++i) {
    const int64_t update = rescale_rhu(direction(i) * multiplier, update_shift);
    const int64_t waiting = accumulator == nullptr ? 0 : accumulator[i];
    predicted[i] = static_cast<Weight>(
        is_plain ? predicted_weight(weights[i], waiting, update, shift, bits)
                 : p.grid.split(lazy_value(weights[i], waiting, shift) - update, shift).weight);
  }
}

// All weights, on all threads; v = direction(i) * 2^exponent.
template <typename Direction>
void predict_all(const OpContext& c, int missed, int exponent, const Direction& direction,
                 std::byte* predicted) {
  const ParameterView& p = c.parameters[0];
  const Rate rate = rate_of(c, missed);
  const int64_t count = p.mantissa.count(), length = count / p.mantissa.blocks;
  const auto on_range = [&](auto* to, int64_t begin, int64_t end) {
    for (int64_t first = begin, last = begin; first < end; first = last) {
      const int64_t block = first / length;
      last = std::min(end, (block + 1) * length);
      const int unit = p.mantissa.block_exponent(block) - p.lazy_shift;
      predict_block(p, rate.multiplier, unit + rate.shift - exponent, first, last, direction, to);
    }
  };
  kernels::parallel_ranges(*c.kernel.pool, count, kUpdateGrain,
                           [&](int64_t begin, int64_t end, int64_t) {
                             if (p.mantissa.type == DataType::kInt8) {
                               on_range(reinterpret_cast<int8_t*>(predicted), begin, end);
                             } else {
                               on_range(reinterpret_cast<int16_t*>(predicted), begin, end);
                             }
                           });
}

void predict_by_velocity(const OpContext& c, int missed, std::byte* predicted) {
  const Tensor& velocity = c.parameters[0].moments[0];
  const auto predict = [&](const auto* v) {
    predict_all(
        c, missed, *velocity.exponent, [v](int64_t i) { return int64_t{v[i]}; }, predicted);
  };
  velocity.type == DataType::kInt32 ? predict(velocity.as<int32_t>())
                                    : predict(velocity.as<int16_t>());
}

// d of the moments that there are (kernels/update/update.h).
void predict_by_adam(const OpContext& c, int missed, std::byte* predicted) {
  const ParameterView& p = c.parameters[0];
  const auto* first = p.moments[0].as<int16_t>();
  const auto* root = p.moments[1].as<int16_t>();
  const int64_t updates = c.step.scalars->step - missed;
  kernels::Adam adam;
  if (updates > 0) choose_quotient(c, updates, adam);
  const int shift = std::max(adam.numerator_shift, 0);
  const bool is_zero = updates <= 0 || adam.numerator_shift < 0;
  const auto direction = [&](int64_t i) -> int64_t {
    if (is_zero) return 0;
    const int64_t denominator = std::max<int64_t>(1, root[i] * adam.root_multiplier + adam.epsilon);
    const int64_t numerator = int64_t{first[i]} * (int64_t{1} << shift);
    return divide_rne(saturate(numerator, denominator << kernels::kAdamLimitBits), denominator);
  };
  predict_all(c, missed, -kernels::kAdamDirectionBits, direction, predicted);
}

}  // namespace

const WeightPrediction kPredictByVelocity = {predict_by_velocity, fp32::predict_by_velocity};
const WeightPrediction kPredictByAdam = {predict_by_adam, fp32::predict_by_adam};

}  // namespace mantissa::ops
