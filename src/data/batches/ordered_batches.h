// Examples in order: for evaluation all of them, for calibration some that are listed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "data/batches/batch_buffers.h"

namespace mantissa {

// Batches of examples, each once, in a fixed order; the last batch may be smaller.
class OrderedBatches : public BatchSource {
 public:
  // In the order of their numbers. Errors: a batch size below 1, no memory.
  static Result<OrderedBatches> create(const Examples& examples, int64_t batch_size);

  // The examples that `order` lists, in this order.
  static Result<OrderedBatches> create(const Examples& examples, int64_t batch_size,
                                       std::vector<uint32_t> order);

  // All examples. Examples that fit into the same one of these lengths are next to each other
  // (length_buckets.h). A batch is as long as its examples need; the last one, if it is smaller, as
  // long as the last length. Errors: several lengths for examples without lengths.
  static Result<OrderedBatches> create_by_length(const Examples& examples, int64_t batch_size,
                                                 const BatchLengths& lengths);

  Batch next() override;

  // The next batch is that number, from 0.
  void go_to(int64_t batch) { first_ = batch * batch_size_; }

  int64_t count() const { return count_; }

  // The memory that it holds, except the order.
  static int64_t predict_bytes(std::span<const TensorSpec> specs, bool has_lengths,
                               int64_t batch_size) {
    return BatchBuffers::predict_bytes(specs, has_lengths, 1, batch_size);
  }

 private:
  OrderedBatches(const Examples& examples, int64_t batch_size,
                 std::optional<std::vector<uint32_t>> order, const BatchLengths& lengths);
  static Result<OrderedBatches> make(const Examples& examples, int64_t batch_size,
                                     std::optional<std::vector<uint32_t>> order,
                                     const BatchLengths& lengths = {});

  int64_t batch_size_;
  std::optional<std::vector<uint32_t>> order_;  // nothing: 0, 1, ...
  int64_t count_;
  BatchLengths lengths_;
  std::function<int32_t(uint32_t example)> length_;
  int64_t first_ = 0;  // place of the next batch's first example in the order
  BatchBuffers buffers_;
};

}  // namespace mantissa
