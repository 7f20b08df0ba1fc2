#include "ops/norms/fold_affine.h"

#include <algorithm>

#include "numerics/float_product.h"
#include "ops/convolutions/convolution_bytes.h"
#include "ops/norms/channel_affine.h"

namespace mantissa::ops {
namespace {

// The nearest number of 24 bits; no mantissa if float32 cannot hold it.
FloatParts nearest_float(const Real& real) {
  const int shift = fixed_point_shift(real.is_zero() ? real : abs(real), kFloatBits);
  const FloatParts parts{to_fixed_point(real, shift, int64_t{1} << kFloatBits), -shift};
  return float_parts(float_from(parts.mantissa, parts.exponent));
}

// A channel that gives the same result for every input.
RescaledChannel constant(const Real& result) {
  constexpr int kFraction = 16;
  constexpr int64_t kBeyondAll = int64_t{1} << (9 + kFraction);  // of 8 bits
  return {float_from(1, -kFraction),
          static_cast<int32_t>(to_fixed_point(result, kFraction, kBeyondAll)), true};
}

}  // namespace

RescaledChannel fold_affine(const OpContext& context, const LayerChannel& layer,
                            int output_exponent) {
  const ChannelAffine affine = frozen_affine(context, layer.channel);
  const Real offset = ldexp(affine.offset + affine.scale * layer.bias, -output_exponent);
  const FloatParts factor =
      nearest_float(ldexp(affine.scale, layer.sum_exponent - output_exponent));
  if (factor.mantissa == 0) return constant(offset);
  const Real bias = offset / ldexp(Real(factor.mantissa), factor.exponent);
  const int64_t nearest = to_fixed_point(bias, 0, 2 * kBiasLimit);
  if (magnitude(nearest) > static_cast<uint64_t>(kBiasLimit)) return constant(offset);
  return {float_from(factor.mantissa, factor.exponent), static_cast<int32_t>(nearest), false};
}

}  // namespace mantissa::ops
