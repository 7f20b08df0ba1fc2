#include "quantise/starts.h"

#include <cassert>
#include <cmath>

#include "quantise/elementary.h"

namespace mantissa::quantise {
namespace {

// tanh 1: of weights that start from mantissas the largest is 1.
constexpr double kLargestTangent = 0.76159415595576488812;
// How near to the end of its cell a latent weight may start.
constexpr double kMargin = 0x1p-20;

bool learns_steps(TrainingMethod method) {
  return method == TrainingMethod::kLsq || method == TrainingMethod::kLsqPlus;
}

// n = 2^(bits - 1): the largest mantissa is n - 1, of {-1, +1} it is n.
double half_range(const MantissaRange& range) {
  return static_cast<double>(range.step == 2 ? range.hi : range.hi + 1);
}

double last_level(const WeightForm& form) { return static_cast<double>(form.range.levels() - 1); }

// The position of a mantissa's number, or any number measured in mantissas.
double latent_at(const WeightForm& form, double mantissa) {
  if (form.method == TrainingMethod::kWrpn) return mantissa / half_range(form.range);
  if (!has_tangents(form.method)) return form.scale * mantissa;
  const auto lo = static_cast<double>(form.range.lo), hi = static_cast<double>(form.range.hi);
  return area_tangent(form.largest_tangent * (2 * (mantissa - lo) / (hi - lo) - 1));
}

}  // namespace

TrainedValues trained_values(TrainingMethod method) {
  switch (method) {
    case TrainingMethod::kWrpn:
    case TrainingMethod::kLsqPlus:
      return {true, true, true};
    case TrainingMethod::kLsq:
      return {true, true, false};
    case TrainingMethod::kPact:
      return {false, true, false};
    case TrainingMethod::kDorefa:
    case TrainingMethod::kHalfWaveGaussian:
    case TrainingMethod::kUniform:
      break;
  }
  return {};
}

bool stops_gradients(TrainingMethod method) { return method == TrainingMethod::kWrpn; }

bool has_tangents(TrainingMethod method) {
  return method == TrainingMethod::kDorefa || method == TrainingMethod::kPact;
}

int64_t WeightForm::mantissa(double w) const {
  if (method == TrainingMethod::kWrpn) return nearest_mantissa(w * half_range(range), range);
  if (!has_tangents(method)) return nearest_mantissa(w / scale, range);
  const double levels = last_level(*this);
  const double place = levels * (hyperbolic_tangent(w) / (2 * largest_tangent) + 0.5);
  return range.lo + range.step * nearest_mantissa(place, {0, range.levels() - 1});
}

double WeightForm::value(int64_t mantissa) const {
  const auto q = static_cast<double>(mantissa);
  return method == TrainingMethod::kWrpn ? scale * (q / half_range(range)) : scale * q;
}

WeightForm weight_form(TrainingMethod method, const MantissaRange& range, double alpha) {
  WeightForm form{method, range, alpha};
  if (method == TrainingMethod::kWrpn) form.scale = half_range(range) * alpha;
  if (has_tangents(method)) form.largest_tangent = kLargestTangent;
  return form;
}

double alpha_of(const WeightForm& form) {
  return form.method == TrainingMethod::kWrpn ? form.scale / half_range(form.range) : form.scale;
}

double latent_weight(const WeightForm& form, int64_t mantissa) {
  return latent_at(form, static_cast<double>(mantissa));
}

double latent_weight(const WeightForm& form, int64_t mantissa, double weight) {
  const auto q = static_cast<double>(mantissa);
  const double half = static_cast<double>(form.range.step) / 2 - kMargin;
  // Beyond the range a weight would have no gradient.
  const double from = std::max(static_cast<double>(form.range.lo), q - half);
  const double to = std::min(static_cast<double>(form.range.hi), q + half);
  return latent_at(form, std::clamp(weight / alpha_of(form), from, to));
}

WeightGradient gradient(const WeightForm& form, double w, double g) {
  const auto q = static_cast<double>(form.mantissa(w));
  if (form.method == TrainingMethod::kWrpn) {
    return {w >= -1 && w <= 1 ? form.scale * g : 0, g * (q / half_range(form.range))};
  }
  if (has_tangents(form.method)) {
    const double tangent = hyperbolic_tangent(w);
    const double reach = (1 + 1 / last_level(form)) * form.largest_tangent;
    const double slope = form.scale * static_cast<double>(form.range.step) * last_level(form) *
                         (1 - tangent * tangent) / (2 * form.largest_tangent);
    return {std::abs(tangent) <= reach ? g * slope : 0, g * q};
  }
  const double place = w / form.scale;
  const bool inside =
      place >= static_cast<double>(form.range.lo) && place <= static_cast<double>(form.range.hi);
  return {inside ? g : 0, g * (inside && learns_steps(form.method) ? q - place : q)};
}

double squared_slope(const WeightForm& form) {
  if (form.method == TrainingMethod::kWrpn) return form.scale * form.scale;
  if (!has_tangents(form.method)) return 1;
  const double slope = gradient(form, 0, 1).weight;
  return slope * slope;
}

ActivationGradient gradient(TrainingMethod method, const LinearGrid& grid, double x, double g) {
  const auto lo = static_cast<double>(grid.range.lo), hi = static_cast<double>(grid.range.hi);
  const double shifted = x - grid.offset, bottom = grid.scale * lo, top = grid.scale * hi;
  const bool below =
      method == TrainingMethod::kHalfWaveGaussian ? shifted <= bottom : shifted < bottom;
  const bool above = method == TrainingMethod::kPact ? shifted >= top : shifted > top;
  if (below) return {0, g * lo, g};
  if (above) return {0, g * hi, g};
  const double q = learns_steps(method) ? static_cast<double>(grid.mantissa(x)) : 0;
  return {g, learns_steps(method) ? g * (q - shifted / grid.scale) : 0, 0};
}

double scale_gradient_factor(int64_t numbers, const MantissaRange& range) {
  return 1 / std::sqrt(static_cast<double>(numbers) * static_cast<double>(range.reach()));
}

double half_wave_gaussian_scale(int bits) {
  constexpr double kScales[] = {1.2240063514569, 0.6507697169493, 0.3534113673425, 0.1932445487187,
                                0.1054875249176, 0.0572613406414, 0.0308700142684, 0.0165282814222};
  assert(bits >= 1 && bits <= 8);
  return kScales[bits - 1];
}

}  // namespace mantissa::quantise
