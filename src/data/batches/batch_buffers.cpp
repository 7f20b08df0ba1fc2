#include "data/batches/batch_buffers.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"

namespace mantissa {
namespace {

// A tensor's place in an example that is not cut yet.
int64_t whole_bytes(const TensorSpec& spec) { return round_up<int64_t>(spec.bytes(), 8); }

int64_t whole_example_bytes(std::span<const TensorSpec> specs, const BatchLengths& lengths) {
  int64_t bytes = 0;
  for (const TensorSpec& spec : specs) bytes += lengths.size() > 1 ? whole_bytes(spec) : 0;
  return bytes;
}

}  // namespace

BatchBuffers::BatchBuffers(const Examples& examples, int64_t slots, int64_t batch_size,
                           const BatchLengths& lengths)
    : examples_(examples),
      batch_size_(batch_size),
      whole_(static_cast<size_t>(whole_example_bytes(examples.specs, lengths))),
      places_(examples.specs.size()),
      cut_places_(examples.specs.size()) {
  const int64_t count = slots * batch_size;
  for (size_t i = 0; i + 1 < lengths.size(); ++i) {
    specs_.push_back(cut_specs(examples.specs, lengths.back(), lengths[i]));
  }
  specs_.push_back(examples.specs);
  bucket_of_slot_.assign(static_cast<size_t>(slots), static_cast<int>(specs_.size()) - 1);
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
  const int bucket = bucket_of_slot_[static_cast<size_t>(slot)];
  const std::vector<TensorSpec>& specs = specs_[static_cast<size_t>(bucket)];
  std::byte* whole = whole_.data();
  for (size_t i = 0; i < places_.size(); ++i) {
    const int64_t bytes = examples_.specs[i].bytes();
    std::byte* const slot_begin = tensors_[i].data() + slot * batch_size_ * bytes;
    cut_places_[i] = slot_begin + place * specs[i].bytes();
    const bool is_cut = specs[i].bytes() < bytes;
    places_[i] = is_cut ? whole : cut_places_[i];
    if (is_cut) whole += whole_bytes(examples_.specs[i]);
  }
  examples_.write(epoch, example, places_);
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i] == cut_places_[i]) continue;
    std::memcpy(cut_places_[i], places_[i], static_cast<size_t>(specs[i].bytes()));
  }
  const auto at = static_cast<size_t>(slot * batch_size_ + place);
  numbers_[at] = example;
  if (!lengths_.empty()) lengths_[at] = examples_.length(example);
}

Batch BatchBuffers::batch(int64_t slot, int64_t count) const {
  const auto first = static_cast<size_t>(slot * batch_size_), size = static_cast<size_t>(count);
  const size_t tensors = tensors_.size();
  const int bucket = bucket_of_slot_[static_cast<size_t>(slot)];
  return {.count = count,
          .specs = specs_[static_cast<size_t>(bucket)],
          .tensors = std::span(slot_tensors_).subspan(static_cast<size_t>(slot) * tensors, tensors),
          .examples = std::span(numbers_).subspan(first, size),
          .lengths = lengths_.empty() ? std::span<const int32_t>()
                                      : std::span(lengths_).subspan(first, size)};
}

int64_t BatchBuffers::bytes() const {
  const auto bytes = [](const auto& buffer) {
    return static_cast<int64_t>(buffer.capacity() * sizeof(buffer[0]));
  };
  int64_t sum = bytes(numbers_) + bytes(lengths_) + bytes(whole_);
  for (const auto& tensor : tensors_) sum += bytes(tensor);
  return sum;
}

int64_t BatchBuffers::predict_bytes(std::span<const TensorSpec> specs, bool has_lengths,
                                    int64_t slots, int64_t batch_size,
                                    const BatchLengths& lengths) {
  return slots * batch_size * example_bytes(specs, has_lengths) +
         whole_example_bytes(specs, lengths);
}

}  // namespace mantissa
