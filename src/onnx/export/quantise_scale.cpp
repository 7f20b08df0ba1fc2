#include "onnx/export/quantise_scale.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/attributes.h"
#include "ops/ops.h"

namespace mantissa::onnx {
namespace {

bool agrees(const ops::QuantiseSteps& steps, const QuantiseInput& input, float scale) {
  for (int q = input.least; q <= input.most; ++q) {
    const float quotient =
        std::nearbyint(std::ldexp(static_cast<float>(q), input.exponent) / scale);
    const auto found =
        std::clamp(quotient, static_cast<float>(steps.low()), static_cast<float>(steps.high()));
    if (found != static_cast<float>(steps.step(q))) return false;
  }
  return true;
}

// Whether the range has a scale for every useful exponent: an input of 8 bits is neither all zero
// nor all beyond the range.
bool has_scales(const ops::QuantiseAttributes& attributes, const ops::GridNumber& range) {
  constexpr int kInputBits = 8;
  const double number = ops::range_of(range).to_double();
  const double step = number / static_cast<double>(ops::quantise_levels(attributes));
  for (int exponent = std::ilogb(step) - kInputBits; exponent <= std::ilogb(number) + 1;
       ++exponent) {
    const ops::QuantiseSteps steps(attributes, range, exponent);
    if (!quantise_scale(steps, {.exponent = exponent})) return false;
  }
  return true;
}

}  // namespace

// Close to the quotient of range and levels. That quotient is rounded twice, so that one of its
// neighbours may be needed.
std::optional<float> quantise_scale(const ops::QuantiseSteps& steps, const QuantiseInput& input) {
  const auto nearest =
      static_cast<float>(steps.range().to_double() / static_cast<double>(steps.levels()));
  const std::array candidates = {nearest, std::nextafter(nearest, 0.0F),
                                 std::nextafter(nearest, 2 * nearest)};
  const auto* found = std::find_if(candidates.begin(), candidates.end(), [&](float scale) {
    return std::isnormal(scale) && agrees(steps, input, scale);
  });
  if (found == candidates.end()) return std::nullopt;
  return *found;
}

double range_with_scales(double range, int bits, bool is_signed) {
  constexpr int kMantissaBits = 15;  // of 16 without the sign
  const ops::QuantiseAttributes attributes{.bits = bits, .is_signed = is_signed};
  const int exponent = std::ilogb(range) - (kMantissaBits - 1);
  const auto nearest = static_cast<int64_t>(std::nearbyint(std::ldexp(range, -exponent)));
  if (has_scales(attributes, {nearest, exponent})) return range;
  const int64_t most = (int64_t{1} << kMantissaBits) - 1;
  for (int64_t distance = 1; distance < most; ++distance) {
    for (const int64_t mantissa : {nearest + distance, nearest - distance}) {
      if (mantissa < 1 || mantissa > most) continue;
      if (has_scales(attributes, {mantissa, exponent})) {
        return std::ldexp(static_cast<double>(mantissa), exponent);
      }
    }
  }
  return range;
}

}  // namespace mantissa::onnx
