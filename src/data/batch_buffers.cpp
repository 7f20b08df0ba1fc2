#include "data/batch_buffers.h"

namespace mantissa {

BatchBuffers::BatchBuffers(const Examples& examples, int64_t slots, int64_t batch_size)
    : examples_(examples), batch_size_(batch_size), places_(examples.specs.size()) {
  const int64_t count = slots * batch_size;
  for (const TensorSpec& spec : examples_.specs) {
    tensors_.emplace_back(static_cast<size_t>(count * spec.bytes()));
  }
  numbers_.resize(static_cast<size_t>(count));
  if (examples_.length != nullptr) lengths_.resize(static_cast<size_t>(count));
  for (int64_t slot = 0; slot < slots; ++slot) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      slot_tensors_.push_back(tensors_[i].data() + slot * batch_size * examples_.specs[i].bytes());
    }
  }
}

void BatchBuffers::write(uint32_t epoch, uint32_t example, int64_t slot, int64_t place) {
  const int64_t at = slot * batch_size_ + place;
  for (size_t i = 0; i < places_.size(); ++i) {
    places_[i] = tensors_[i].data() + at * examples_.specs[i].bytes();
  }
  examples_.write(epoch, example, places_);
  numbers_[static_cast<size_t>(at)] = example;
  if (!lengths_.empty()) lengths_[static_cast<size_t>(at)] = examples_.length(example);
}

Batch BatchBuffers::batch(int64_t slot, int64_t count) const {
  const auto first = static_cast<size_t>(slot * batch_size_), size = static_cast<size_t>(count);
  const size_t tensors = tensors_.size();
  return {.count = count,
          .specs = examples_.specs,
          .tensors = std::span(slot_tensors_).subspan(static_cast<size_t>(slot) * tensors, tensors),
          .examples = std::span(numbers_).subspan(first, size),
          .lengths = lengths_.empty() ? std::span<const int32_t>()
                                      : std::span(lengths_).subspan(first, size)};
}

int64_t BatchBuffers::bytes() const {
  const auto bytes = [](const auto& buffer) {
    return static_cast<int64_t>(buffer.capacity() * sizeof(buffer[0]));
  };
  int64_t sum = bytes(numbers_) + bytes(lengths_);
  for (const auto& tensor : tensors_) sum += bytes(tensor);
  return sum;
}

int64_t BatchBuffers::predict_bytes(std::span<const TensorSpec> specs, bool has_lengths,
                                    int64_t slots, int64_t batch_size) {
  return slots * batch_size * example_bytes(specs, has_lengths);
}

}  // namespace mantissa
