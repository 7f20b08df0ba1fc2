// y = scale * x + offset for each channel: real numbers as integers for scale_offset. Shared by the
// operators of this form (batch_norm, rescale).
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/op.h"
#include "kernels/batch_norm/batch_norm.h"
#include "numerics/real.h"
#include "ops/norms/batch_norm_parts.h"

namespace mantissa::ops {

struct ChannelAffine {
  Real scale, offset;
};

// Exact sums and extremes of each channel over all rows of the input, in the workspace.
kernels::ChannelSums channel_sums(const OpContext& context, const BatchNormWorkspace& work,
                                  int64_t channels, int64_t rows);

// The extremes of q * multiplier + offset, from the extremes of the channels and 0: exact, without
// a pass.
struct Extremes {
  int64_t lowest = 0, highest = 0;
};
Extremes affine_extremes(const kernels::ChannelSums& sums, const int32_t* multiplier,
                         const int64_t* offset, int64_t channels);

// Adds the two real numbers of a channel to the peak of all.
inline void add_affine(const OpContext& c, const ChannelAffine& affine, Peak& peak) {
  peak.add(affine.scale);
  peak.add(ldexp(affine.offset, 1 - std::max(8, c.inputs[0].bits)));
}

// Writes multipliers (31 bits, 29 for inputs of 16) and offsets of channels with one exponent,
// which is returned. `reals` has their real numbers, two per channel.
inline int write_affine(const OpContext& c, const Peak& peak, int64_t channels, const Real* reals,
                        int32_t* multiplier, int64_t* offset) {
  constexpr int64_t kOffsetLimit = int64_t{1} << 44;
  // This many bits keep offsets within their limit.
  const int shift =
      fixed_point_shift(peak.value, std::min(31, 45 - std::max(8, c.inputs[0].bits)));
  for (int64_t i = 0; i < channels; ++i) {
    multiplier[i] = static_cast<int32_t>(to_fixed_point(reals[2 * i], shift, mantissa_limit(32)));
    offset[i] = to_fixed_point(reals[2 * i + 1], shift, kOffsetLimit);
    if (!c.mode.half_up) continue;
    multiplier[i] &= ~1;  // an odd sum is never halfway between mantissas
    offset[i] |= 1;
  }
  return -shift;
}

// The same of all channels. `affine(channel)` gives scale and offset for mantissas of the input;
// `reals` has room for two per channel.
template <typename Affine>
int fixed_point_affine(const OpContext& c, int64_t channels, const Affine& affine, Real* reals,
                       int32_t* multiplier, int64_t* offset) {
  const Peak peak = peak_of_channels(c, channels, [&](int64_t begin, int64_t end) {
    Peak found;
    for (int64_t i = begin; i < end; ++i) {
      const ChannelAffine a = affine(i);
      reals[2 * i] = a.scale;
      reals[2 * i + 1] = a.offset;
      add_affine(c, a, found);
    }
    return found;
  });
  if (!peak.is_finite) c.step.totals->exponent_overflow = true;
  return write_affine(c, peak, channels, reals, multiplier, offset);
}

// The same for mantissas of the input of an op, whose scale and offset are in real units.
inline ChannelAffine of_mantissas(const OpContext& c, int64_t channel, const ChannelAffine& real) {
  return {ldexp(real.scale, channel_exponent(c.inputs[0], channel)), real.offset};
}

// Scale and offset of a channel in real units outside training, for batch_norm or rescale.
ChannelAffine frozen_affine(const OpContext& context, int64_t channel);

// Writes multiplier and offset ([channels]) of scale_offset for such an op. Its context has the
// op's parameters, its input's exponents and no training mode. Returns their exponent k: y = (q *
// multiplier + offset) * 2^k. Rounded to nearest even (METHODS section 0).
int freeze_affine(const OpContext& context, int32_t* multiplier, int64_t* offset);

}  // namespace mantissa::ops
