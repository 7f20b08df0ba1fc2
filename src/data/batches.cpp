#include "data/batches.h"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "base/random.h"
#include "base/sizes.h"
#include "base/thread_pool.h"

namespace mantissa {
namespace {

constexpr int64_t kSlots = 3;  // one with the caller, two ready or being prepared
constexpr uint8_t kBlack = 0;

}  // namespace

void fill_epoch_order(uint64_t seed, uint32_t epoch, std::span<uint32_t> order) noexcept {
  std::iota(order.begin(), order.end(), 0u);
  // Fisher-Yates. Not std::shuffle: what that does differs between standard libraries.
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

// Batch number n of this run (from 0) lies in slot n % kSlots.
struct BatchPrefetcher::State {
  State(const ImageSet& image_set, const BatchOptions& batch_options)
      : images(image_set),
        options(batch_options),
        steps_per_epoch(images.count / options.batch_size),
        pixels(static_cast<size_t>(kSlots * options.batch_size * images.example_bytes())),
        labels(static_cast<size_t>(kSlots * options.batch_size)),
        indices(labels.size()),
        order(static_cast<size_t>(images.count)),
        epoch(options.first_epoch),
        step(options.first_step) {}

  void produce();
  void prepare_next();
  void fill(int64_t slot);

  const ImageSet& images;
  const BatchOptions options;
  const int64_t steps_per_epoch;
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;
  std::vector<uint32_t> indices;

  // Of the batch that is prepared next. Whoever prepares batches alone uses them.
  std::vector<uint32_t> order;  // of its epoch
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
void BatchPrefetcher::State::produce() {
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

void BatchPrefetcher::State::prepare_next() {
  if (step == steps_per_epoch) {
    ++epoch;
    step = 0;
    ordered = false;
  }
  if (!std::exchange(ordered, true)) fill_epoch_order(options.seed, epoch, order);
  fill(prepared % kSlots);
  ++prepared;
  ++step;
}

void BatchPrefetcher::State::fill(int64_t slot) {
  const int64_t example_bytes = images.example_bytes();
  for (int64_t i = 0; i < options.batch_size; ++i) {
    const uint32_t example = order[static_cast<size_t>(step * options.batch_size + i)];
    const int64_t place = slot * options.batch_size + i;
    const AugmentBits bits = augment_bits(options.seed, epoch, example);
    augment_image(images.pixels.data() + example * example_bytes, images.height, images.width,
                  images.channels, options.augmentation, bits, kBlack,
                  pixels.data() + place * example_bytes);
    labels[static_cast<size_t>(place)] = images.labels[example];
    indices[static_cast<size_t>(place)] = example;
  }
}

BatchPrefetcher::BatchPrefetcher(std::unique_ptr<State> state) : state_(std::move(state)) {}

BatchPrefetcher::~BatchPrefetcher() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->changed.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
}

Result<std::unique_ptr<BatchPrefetcher>> BatchPrefetcher::create(const ImageSet& images,
                                                                 const BatchOptions& options) {
  if (options.batch_size < 1 || options.batch_size > images.count) {
    return invalid_input("a batch of " + std::to_string(options.batch_size) +
                         " cannot be drawn from " + std::to_string(images.count) + " examples");
  }
  if (images.count > std::numeric_limits<uint32_t>::max()) {
    return invalid_input("a data set has at most 2^32 - 1 examples, not " +
                         std::to_string(images.count));
  }
  const int64_t steps_per_epoch = images.count / options.batch_size;
  if (options.total_steps < 0 || options.first_step < 0 || options.first_step > steps_per_epoch) {
    return invalid_input("step " + std::to_string(options.first_step) + ", followed by " +
                         std::to_string(options.total_steps) + " more, cannot be: an epoch has " +
                         std::to_string(steps_per_epoch) + " steps");
  }
  try {
    auto state = std::make_unique<State>(images, options);
    State* shared = state.get();
    std::unique_ptr<BatchPrefetcher> prefetcher(new BatchPrefetcher(std::move(state)));
    shared->thread = try_thread([shared] { shared->produce(); });
    return prefetcher;
  } catch (const std::bad_alloc&) {
    return out_of_memory("batches ahead", predict_buffer_bytes(images.count, images.example_bytes(),
                                                             options.batch_size));
  }
}

bool BatchPrefetcher::works_ahead() const { return state_->thread.joinable(); }

Batch BatchPrefetcher::next() {
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
  const int64_t first = (state.taken - 1) % kSlots * state.options.batch_size;
  return {state.pixels.data() + first * state.images.example_bytes(), state.labels.data() + first,
          state.indices.data() + first};
}

int64_t BatchPrefetcher::steps_per_epoch() const { return state_->steps_per_epoch; }

int64_t BatchPrefetcher::buffer_bytes() const {
  const auto bytes = [](const auto& buffer) {
    return static_cast<int64_t>(buffer.capacity() * sizeof(buffer[0]));
  };
  return bytes(state_->pixels) + bytes(state_->labels) + bytes(state_->indices) +
         bytes(state_->order);
}

int64_t BatchPrefetcher::predict_buffer_bytes(int64_t count, int64_t example_bytes,
                                              int64_t batch_size) {
  const int64_t slot_example_bytes = example_bytes + 1 + static_cast<int64_t>(sizeof(uint32_t));
  return kSlots * batch_size * slot_example_bytes + count * static_cast<int64_t>(sizeof(uint32_t));
}

}  // namespace mantissa
