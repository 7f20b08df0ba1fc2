#include "device/text/packed_weights.h"

#include <algorithm>
#include <bit>

namespace mantissa::device {

PackedWeights pack_weights(std::span<const int8_t> weights) {
  unsigned all = 0;
  for (const int8_t weight : weights) all |= static_cast<uint8_t>(weight);
  PackedWeights packed;
  packed.shift = all == 0 ? 0 : std::countr_zero(all);
  const auto fits = [&](int bits) {
    return std::ranges::all_of(weights, [&](int8_t weight) {
      const int mantissa = weight >> packed.shift;
      return mantissa >= -(1 << (bits - 1)) && mantissa < 1 << (bits - 1);
    });
  };
  packed.bits = fits(2) ? 2 : fits(4) ? 4 : 8;
  if (packed.bits == 8) {
    packed.shift = 0;
    packed.bytes.assign(weights.begin(), weights.end());
    return packed;
  }
  const size_t per_byte = 8 / static_cast<size_t>(packed.bits);
  packed.bytes.resize((weights.size() + per_byte - 1) / per_byte);
  for (size_t i = 0; i < weights.size(); ++i) {
    const int field = (weights[i] >> packed.shift) & ((1 << packed.bits) - 1);
    packed.bytes[i / per_byte] |= int64_t{field}
                                  << (i % per_byte * static_cast<size_t>(packed.bits));
  }
  return packed;
}

}  // namespace mantissa::device
