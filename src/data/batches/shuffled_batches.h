// Batches for training: shuffled anew in each epoch, and prepared ahead of their use.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "data/batches/examples.h"
#include "data/batches/length_buckets.h"

namespace mantissa {

// The batches of a run from (first_epoch, first_step) on.
struct ShuffleOptions {
  int64_t batch_size = 1;
  uint64_t seed = 0;
  uint32_t first_epoch = 0;
  int64_t first_step = 0;   // within first_epoch, from 0 to steps_per_epoch() (the next epoch)
  int64_t total_steps = 0;  // how many batches next() gives
  // Each batch is as long as the first of these that its examples fit into, and examples that fit
  // into the same one go together (length_buckets.h).
  BatchLengths lengths = {};
};

// Prepares batches on one background thread, up to two ahead of the caller. They are a pure
// function of options and examples, whatever the timing: a run that starts at (epoch, step) gets
// the batches that a longer run has from there on. The last, smaller batch of an epoch is dropped.
class ShuffledBatches : public BatchSource {
 public:
  // Errors: batch_size not in 1 ... examples.count, 2^32 or more examples, a negative number of
  // steps, first_step outside the epoch, several lengths for examples without, no memory.
  static Result<std::unique_ptr<ShuffledBatches>> create(const Examples& examples,
                                                         const ShuffleOptions& options);

  // Stops the thread; waits for at most the batch that it is preparing.
  ~ShuffledBatches() override;
  ShuffledBatches(const ShuffledBatches&) = delete;
  ShuffledBatches& operator=(const ShuffledBatches&) = delete;

  // Waits until the batch is ready.
  Batch next() override;

  // Whether a thread prepares batches ahead; if the system gave none, next() prepares each.
  bool works_ahead() const;

  int64_t steps_per_epoch() const;

  // All bytes that it holds, for the memory plan.
  int64_t bytes() const;

  // The bytes() of such batches, of `count` examples.
  static int64_t predict_bytes(std::span<const TensorSpec> specs, bool has_lengths, int64_t count,
                               int64_t batch_size, const BatchLengths& lengths = {});

 private:
  struct State;
  explicit ShuffledBatches(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mantissa
