#include "data/batches/epoch_order.h"

#include <numeric>
#include <utility>

#include "base/random.h"

namespace mantissa {

void fill_epoch_order(uint64_t seed, uint32_t epoch, std::span<uint32_t> order) noexcept {
  std::iota(order.begin(), order.end(), 0u);
  // Fisher-Yates. Not std::shuffle: its result differs between standard libraries.
  for (size_t i = order.size(); i > 1; --i) {
    const uint64_t bits = random_bits(seed, RandomStream::kShuffle, epoch, i - 1);
    std::swap(order[i - 1], order[uniform_below(bits, i)]);
  }
}

std::vector<uint32_t> epoch_order(uint64_t seed, uint32_t epoch, int64_t count) {
  std::vector<uint32_t> order(static_cast<size_t>(count));
  fill_epoch_order(seed, epoch, order);
  return order;
}

}  // namespace mantissa
