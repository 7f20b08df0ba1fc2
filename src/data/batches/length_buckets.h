// Sequences of similar length go into one batch, which is padded to one of a few lengths.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "data/batches/batch.h"

namespace mantissa {

// Lengths of batches, rising. The last one is the length of the examples' tensors. One or none: all
// batches have the same length.
using BatchLengths = std::vector<int64_t>;

// Up to `buckets` lengths: the parts 1/n, 2/n ... of the sequence, each rounded up to a multiple of
// 8.
BatchLengths batch_lengths(int64_t sequence, int64_t buckets);

// The first of the lengths that is not below `length`, or the last one.
int bucket_of(std::span<const int64_t> lengths, int64_t length);

// The error for several lengths if the examples have none.
Error no_lengths();

// The specs of tensors whose first axis is cut from `whole` to `length`. Tensors with another first
// axis stay as they are.
std::vector<TensorSpec> cut_specs(std::vector<TensorSpec> specs, int64_t whole, int64_t length);

// Puts examples of one bucket beside each other, keeping their order within it, and shuffles the
// batches that this makes: a pure function of all arguments. `order` is whole batches, in the order
// of epoch_order(seed, epoch); `scratch` has room for as many. bucket(example) is 0 ... 255.
void order_by_bucket(uint64_t seed, uint32_t epoch, int64_t batch_size,
                     const std::function<int(uint32_t example)>& bucket, std::span<uint32_t> order,
                     std::span<uint32_t> scratch);

}  // namespace mantissa
