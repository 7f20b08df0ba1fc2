// Parts of rescale, and of the `quantise` node before the layer, for other files.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/op.h"
#include "ops/norms/channel_affine.h"

namespace mantissa::ops {

// The parameters of a `quantise` node, and the parameters of a rescale.
std::vector<Parameter> quantise_parameters(bool has_offset);
std::vector<Parameter> rescale_parameters(int64_t channels);

// Scale and offset of a channel in real units: range / (N 2^exponent) times its scale, and its
// bias.
ChannelAffine rescale_affine(const OpContext& context, int64_t channel);

}  // namespace mantissa::ops
