#include "kernels/convolution/words/store.h"

#include <algorithm>

namespace mantissa::kernels::convolution_words {

Store::Store(TargetType target, int shift_bits, int64_t largest)
    : type(target), shift(shift_bits), limit(largest) {
  // limit + 1/2 is a tie, which goes to the even limit + 1 and is clipped.
  const int bits = std::min(shift, 31);
  const int64_t half = bits > 0 ? int64_t{1} << (bits - 1) : 1;
  unsaturated = static_cast<uint32_t>(std::min((limit << bits) + half - 1, int64_t{INT32_MAX}));
}

WideStatistics Store::statistics() const {
  WideStatistics result{.maximum = 0, .saturated = saturated};
  for (const uint32_t lane : maximum) result.maximum = std::max<uint64_t>(result.maximum, lane);
  for (const int64_t lane : int64_maximum) {
    result.maximum = std::max(result.maximum, static_cast<uint64_t>(lane));
  }
  return result;
}

void Store::add(const WideStatistics& part) {
  const auto largest = static_cast<int64_t>(part.maximum);
  int64_maximum[0] = std::max(int64_maximum[0], largest);
  saturated += part.saturated;
}

}  // namespace mantissa::kernels::convolution_words
