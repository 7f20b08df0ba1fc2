// The order of training examples, and batches prepared ahead of their use.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "data/augment.h"
#include "data/dataset.h"

namespace mantissa {

// A uniform permutation of 0 ... count - 1, a pure function of (seed, epoch). 0 <= count < 2^32.
std::vector<uint32_t> epoch_order(uint64_t seed, uint32_t epoch, int64_t count);

// The same into a buffer of `count` elements.
void fill_epoch_order(uint64_t seed, uint32_t epoch, std::span<uint32_t> order) noexcept;

struct BatchOptions {
  int64_t batch_size = 1;
  uint64_t seed = 0;
  Augmentation augmentation;
  uint32_t first_epoch = 0;
  int64_t first_step = 0;   // within first_epoch, from 0 to steps_per_epoch() (the next epoch)
  int64_t total_steps = 0;  // how many batches next() gives
};

// A batch; points into its BatchPrefetcher.
struct Batch {
  const uint8_t* pixels = nullptr;    // [batch_size][height][width][channels]
  const uint8_t* labels = nullptr;    // [batch_size]
  const uint32_t* indices = nullptr;  // [batch_size]: which examples of the ImageSet
};

// Prepares shuffled, augmented batches on one background thread, up to two ahead of the caller. The
// batches are a pure function of the options and the pictures, whatever the timing, and those of a
// run that starts at (epoch, step) are those that a longer run has from there on. The last, smaller
// batch of an epoch is dropped. Allocates nothing after it was made.
class BatchPrefetcher {
 public:
  // `images` must outlive the result. Errors: batch_size not in 1 ... images.count, 2^32 or more
  // pictures, a negative number of steps, first_step outside the epoch, no memory.
  static Result<std::unique_ptr<BatchPrefetcher>> create(const ImageSet& images,
                                                         const BatchOptions& options);

  // Stops the thread; waits for at most the batch that it is preparing.
  ~BatchPrefetcher();
  BatchPrefetcher(const BatchPrefetcher&) = delete;
  BatchPrefetcher& operator=(const BatchPrefetcher&) = delete;

  // The next batch, valid until the next call; waits until it is ready. After total_steps batches:
  // an empty Batch (null pointers). To be called from one thread.
  Batch next();

  // Whether a thread prepares batches ahead; where the system gave none, next() prepares each.
  bool works_ahead() const;

  int64_t steps_per_epoch() const;

  // All bytes that it holds, for the memory plan.
  int64_t buffer_bytes() const;

  // What buffer_bytes() will be, for `count` pictures of example_bytes each.
  static int64_t predict_buffer_bytes(int64_t count, int64_t example_bytes, int64_t batch_size);

 private:
  struct State;
  explicit BatchPrefetcher(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mantissa
