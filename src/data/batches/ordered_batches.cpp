#include "data/batches/ordered_batches.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "base/sizes.h"

namespace mantissa {

OrderedBatches::OrderedBatches(const Examples& examples, int64_t batch_size,
                               std::optional<std::vector<uint32_t>> order,
                               const BatchLengths& lengths)
    : batch_size_(batch_size),
      order_(std::move(order)),
      count_(order_ ? std::ssize(*order_) : examples.count),
      lengths_(lengths),
      length_(examples.length),
      buffers_(examples, 1, batch_size, lengths) {}

Result<OrderedBatches> OrderedBatches::make(const Examples& examples, int64_t batch_size,
                                            std::optional<std::vector<uint32_t>> order,
                                            const BatchLengths& lengths) {
  if (batch_size < 1) {
    return invalid_input("a batch has at least 1 example, not " + std::to_string(batch_size));
  }
  try {
    return OrderedBatches(examples, batch_size, std::move(order), lengths);
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

Result<OrderedBatches> OrderedBatches::create_by_length(const Examples& examples,
                                                        int64_t batch_size,
                                                        const BatchLengths& lengths) {
  if (lengths.size() < 2) return create(examples, batch_size);
  if (examples.length == nullptr) return no_lengths();
  const auto bucket = [&](uint32_t example) {
    return bucket_of(lengths, examples.length(example));
  };
  std::vector<uint32_t> order(static_cast<size_t>(examples.count));
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, bucket);
  return make(examples, batch_size, std::move(order), lengths);
}

Batch OrderedBatches::next() {
  const int64_t count = std::clamp<int64_t>(count_ - first_, 0, batch_size_);
  const auto example = [&](int64_t place) {
    const auto at = static_cast<size_t>(first_ + place);
    return order_ ? (*order_)[at] : static_cast<uint32_t>(at);
  };
  if (lengths_.size() > 1 && count > 0) {
    // The order rises.
    const bool is_whole = count == batch_size_;
    buffers_.set_bucket(0, is_whole ? bucket_of(lengths_, length_(example(count - 1)))
                                    : static_cast<int>(lengths_.size()) - 1);
  }
  for (int64_t place = 0; place < count; ++place) buffers_.write(0, example(place), 0, place);
  first_ += count;
  return buffers_.batch(0, count);
}

}  // namespace mantissa
