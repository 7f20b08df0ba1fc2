#include "data/batches/shuffled_batches.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <limits>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/sizes.h"
#include "base/system/thread_pool.h"
#include "data/batches/batch_buffers.h"
#include "data/batches/epoch_order.h"

namespace mantissa {
namespace {

constexpr int64_t kSlots = 3;  // one with the caller, two ready or being prepared

}  // namespace

// Batch number n of this run (from 0) lies in slot n % kSlots.
struct ShuffledBatches::State {
  State(const Examples& examples, const ShuffleOptions& shuffle_options)
      : options(shuffle_options),
        steps_per_epoch(examples.count / options.batch_size),
        buffers(examples, kSlots, options.batch_size, options.lengths),
        length(examples.length),
        order(static_cast<size_t>(examples.count)),
        scratch(static_cast<size_t>(has_buckets() ? examples.count : 0)),
        epoch(options.first_epoch),
        step(options.first_step) {}

  bool has_buckets() const { return options.lengths.size() > 1; }
  int bucket(uint32_t example) const { return bucket_of(options.lengths, length(example)); }
  void produce();
  void begin_epoch();
  void prepare_next();

  const ShuffleOptions options;
  const int64_t steps_per_epoch;
  BatchBuffers buffers;
  const std::function<int32_t(uint32_t example)> length;

  // The batch that is prepared next. Only the thread that prepares batches uses these.
  std::vector<uint32_t> order;    // of its epoch
  std::vector<uint32_t> scratch;  // for an order by buckets
  uint32_t epoch;
  int64_t step;
  bool ordered = false;
  int64_t prepared = 0;

  std::mutex mutex;
  std::condition_variable changed;
  int64_t produced = 0;  // batches prepared
  int64_t taken = 0;     // batches that next() gave
  int64_t released = 0;  // batches whose slots may be used again
  bool stop = false;
  std::thread thread;
};

// The thread: prepares batch after batch, waiting while all slots are in use.
void ShuffledBatches::State::produce() {
  while (prepared < options.total_steps) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return stop || prepared - released < kSlots; });
      if (stop) return;
    }
    prepare_next();
    {
      const std::lock_guard lock(mutex);
      produced = prepared;
    }
    changed.notify_all();
  }
}

void ShuffledBatches::State::begin_epoch() {
  fill_epoch_order(options.seed, epoch, order);
  if (!has_buckets()) return;
  const auto used = static_cast<size_t>(steps_per_epoch * options.batch_size);
  order_by_bucket(
      options.seed, epoch, options.batch_size, [this](uint32_t example) { return bucket(example); },
      std::span(order).first(used), scratch);
}

void ShuffledBatches::State::prepare_next() {
  if (step == steps_per_epoch) {
    ++epoch;
    step = 0;
    ordered = false;
  }
  if (!std::exchange(ordered, true)) begin_epoch();
  const auto size = static_cast<size_t>(options.batch_size);
  const auto batch = std::span(order).subspan(static_cast<size_t>(step) * size, size);
  if (has_buckets()) {
    int largest = 0;
    for (const uint32_t example : batch) largest = std::max(largest, bucket(example));
    buffers.set_bucket(prepared % kSlots, largest);
  }
  for (size_t i = 0; i < size; ++i) {
    buffers.write(epoch, batch[i], prepared % kSlots, static_cast<int64_t>(i));
  }
  ++prepared;
  ++step;
}

ShuffledBatches::ShuffledBatches(std::unique_ptr<State> state) : state_(std::move(state)) {}

ShuffledBatches::~ShuffledBatches() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->changed.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
}

Result<std::unique_ptr<ShuffledBatches>> ShuffledBatches::create(const Examples& examples,
                                                                 const ShuffleOptions& options) {
  if (options.batch_size < 1 || options.batch_size > examples.count) {
    return invalid_input("a batch of " + std::to_string(options.batch_size) +
                         " cannot be drawn from " + std::to_string(examples.count) + " examples");
  }
  if (examples.count > std::numeric_limits<uint32_t>::max()) {
    return invalid_input("a data set has at most 2^32 - 1 examples, not " +
                         std::to_string(examples.count));
  }
  const int64_t steps_per_epoch = examples.count / options.batch_size;
  if (options.total_steps < 0 || options.first_step < 0 || options.first_step > steps_per_epoch) {
    return invalid_input("step " + std::to_string(options.first_step) + ", followed by " +
                         std::to_string(options.total_steps) + " more, cannot be: an epoch has " +
                         std::to_string(steps_per_epoch) + " steps");
  }
  if (options.lengths.size() > 1 && examples.length == nullptr) return no_lengths();
  try {
    auto state = std::make_unique<State>(examples, options);
    State* shared = state.get();
    std::unique_ptr<ShuffledBatches> batches(new ShuffledBatches(std::move(state)));
    shared->thread = try_thread([shared] { shared->produce(); });
    return batches;
  } catch (const std::bad_alloc&) {
    return out_of_memory("batches ahead",
                         predict_bytes(examples.specs, examples.length != nullptr, examples.count,
                                       options.batch_size, options.lengths));
  }
}

bool ShuffledBatches::works_ahead() const { return state_->thread.joinable(); }

Batch ShuffledBatches::next() {
  State& state = *state_;
  if (state.taken == state.options.total_steps) return {};
  if (works_ahead()) {
    std::unique_lock lock(state.mutex);
    state.released = state.taken;
    state.changed.notify_all();
    state.changed.wait(lock, [&] { return state.produced > state.taken; });
  } else {
    state.prepare_next();
  }
  ++state.taken;
  return state.buffers.batch((state.taken - 1) % kSlots, state.options.batch_size);
}

int64_t ShuffledBatches::steps_per_epoch() const { return state_->steps_per_epoch; }

int64_t ShuffledBatches::bytes() const {
  return state_->buffers.bytes() +
         static_cast<int64_t>((state_->order.capacity() + state_->scratch.capacity()) *
                              sizeof(uint32_t));
}

int64_t ShuffledBatches::predict_bytes(std::span<const TensorSpec> specs, bool has_lengths,
                                       int64_t count, int64_t batch_size,
                                       const BatchLengths& lengths) {
  return BatchBuffers::predict_bytes(specs, has_lengths, kSlots, batch_size, lengths) +
         (lengths.size() > 1 ? 2 : 1) * count * int64_t{sizeof(uint32_t)};
}

}  // namespace mantissa
