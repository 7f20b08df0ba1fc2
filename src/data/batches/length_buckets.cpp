#include "data/batches/length_buckets.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "base/random.h"

namespace mantissa {
namespace {

constexpr int64_t kLengthStep = 8;
constexpr int kMostBuckets = 256;
// Random numbers for batches come after those for examples. There are fewer than 2^32 examples.
constexpr uint64_t kFirstOfBatches = uint64_t{1} << 32;

}  // namespace

BatchLengths batch_lengths(int64_t sequence, int64_t buckets) {
  BatchLengths lengths;
  for (int64_t i = 1; i <= buckets; ++i) {
    const int64_t part = (sequence * i + buckets - 1) / buckets;
    const int64_t length = std::min(sequence, round_up(part, kLengthStep));
    if (lengths.empty() || length > lengths.back()) lengths.push_back(length);
  }
  return lengths;
}

int bucket_of(std::span<const int64_t> lengths, int64_t length) {
  const auto found = std::lower_bound(lengths.begin(), lengths.end() - 1, length);
  return static_cast<int>(found - lengths.begin());
}

Error no_lengths() {
  return invalid_input("batches of several lengths want examples that have lengths");
}

std::vector<TensorSpec> cut_specs(std::vector<TensorSpec> specs, int64_t whole, int64_t length) {
  for (TensorSpec& spec : specs) {
    if (spec.shape.rank > 0 && spec.shape[0] == whole) spec.shape.dims[0] = length;
  }
  return specs;
}

void order_by_bucket(uint64_t seed, uint32_t epoch, int64_t batch_size,
                     const std::function<int(uint32_t example)>& bucket, std::span<uint32_t> order,
                     std::span<uint32_t> scratch) {
  std::array<size_t, kMostBuckets + 1> first{};
  for (const uint32_t example : order) ++first[static_cast<size_t>(bucket(example)) + 1];
  for (size_t b = 1; b < first.size(); ++b) first[b] += first[b - 1];
  for (const uint32_t example : order) {
    scratch[first[static_cast<size_t>(bucket(example))]++] = example;
  }
  std::copy_n(scratch.begin(), order.size(), order.begin());
  const auto size = static_cast<size_t>(batch_size);
  for (size_t i = order.size() / size; i > 1; --i) {
    const uint64_t bits = random_bits(seed, RandomStream::kShuffle, epoch, kFirstOfBatches + i - 1);
    const size_t other = uniform_below(bits, i);
    if (other == i - 1) continue;
    std::swap_ranges(order.begin() + (i - 1) * size, order.begin() + i * size,
                     order.begin() + other * size);
  }
}

}  // namespace mantissa
