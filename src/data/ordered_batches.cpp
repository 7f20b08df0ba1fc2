#include "data/ordered_batches.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/sizes.h"

namespace mantissa {

OrderedBatches::OrderedBatches(const Examples& examples, int64_t batch_size,
                               std::optional<std::vector<uint32_t>> order)
    : batch_size_(batch_size),
      order_(std::move(order)),
      count_(order_ ? std::ssize(*order_) : examples.count),
      buffers_(examples, 1, batch_size) {}

Result<OrderedBatches> OrderedBatches::make(const Examples& examples, int64_t batch_size,
                                            std::optional<std::vector<uint32_t>> order) {
  if (batch_size < 1) {
    return invalid_input("a batch has at least 1 example, not " + std::to_string(batch_size));
  }
  try {
    return OrderedBatches(examples, batch_size, std::move(order));
  } catch (const std::bad_alloc&) {
    return out_of_memory("a batch",
                         predict_bytes(examples.specs, examples.length != nullptr, batch_size));
  }
}

Result<OrderedBatches> OrderedBatches::create(const Examples& examples, int64_t batch_size) {
  return make(examples, batch_size, std::nullopt);
}

Result<OrderedBatches> OrderedBatches::create(const Examples& examples, int64_t batch_size,
                                              std::vector<uint32_t> order) {
  return make(examples, batch_size, std::move(order));
}

Batch OrderedBatches::next() {
  const int64_t count = std::clamp<int64_t>(count_ - first_, 0, batch_size_);
  for (int64_t place = 0; place < count; ++place) {
    const auto at = static_cast<size_t>(first_ + place);
    buffers_.write(0, order_ ? (*order_)[at] : static_cast<uint32_t>(at), 0, place);
  }
  first_ += count;
  return buffers_.batch(0, count);
}

}  // namespace mantissa
