#include "data/batches/examples.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "data/batches/no_label.h"

namespace mantissa {
namespace {

constexpr uint8_t kBlack = 0;

// A stored tensor in batches: its tensors there, and a function that writes an example of each.
struct BatchTensors {
  std::vector<TensorSpec> specs;
  std::function<void(uint32_t epoch, uint32_t example, std::byte* const* places)> write;
  std::function<int32_t(uint32_t example)> length = nullptr;  // of a sequence with padding
};

// Numbers as they are stored, or wider.
template <typename To, typename From>
BatchTensors same_numbers(const StoredTensor& tensor, const std::vector<From>& numbers,
                          DataType type) {
  const int64_t count = tensor.shape.count();
  return {{{tensor.name, type, tensor.shape}},
          [&numbers, count](uint32_t, uint32_t example, std::byte* const* places) {
            std::copy_n(numbers.begin() + example * count, count, reinterpret_cast<To*>(places[0]));
          }};
}

BatchTensors padded_tokens(const StoredTensor& tensor, const std::vector<int16_t>& numbers) {
  const int64_t sequence = tensor.shape.count();
  const auto tokens_of = [&numbers, sequence](uint32_t example) {
    const auto places = std::span(numbers).subspan(example * sequence, sequence);
    return places.first(
        static_cast<size_t>(std::find(places.begin(), places.end(), kNoToken) - places.begin()));
  };
  const int32_t padding = *tensor.padding;
  return {
      {{tensor.name, DataType::kInt32, tensor.shape},
       {kSegmentTensor, DataType::kInt32, tensor.shape},
       {kLengthTensor, DataType::kInt32, Shape{}}},
      [tokens_of, sequence, padding](uint32_t, uint32_t example, std::byte* const* places) {
        const auto from = tokens_of(example);
        auto* tokens = reinterpret_cast<int32_t*>(places[0]);
        std::fill(std::copy(from.begin(), from.end(), tokens), tokens + sequence, padding);
        std::fill_n(reinterpret_cast<int32_t*>(places[1]), sequence, 0);
        *reinterpret_cast<int32_t*>(places[2]) = static_cast<int32_t>(from.size());
      },
      [tokens_of](uint32_t example) { return static_cast<int32_t>(tokens_of(example).size()); }};
}

BatchTensors augmented_pixels(const StoredTensor& tensor, const std::vector<uint8_t>& pixels,
                              const Augmentation& augmentation, uint64_t seed) {
  return {{{tensor.name, DataType::kUint8, tensor.shape}},
          [&pixels, shape = tensor.shape, augmentation, seed](uint32_t epoch, uint32_t example,
                                                              std::byte* const* places) {
            augment_image(pixels.data() + example * shape.count(), shape[0], shape[1], shape[2],
                          augmentation, augment_bits(seed, epoch, example), kBlack,
                          reinterpret_cast<uint8_t*>(places[0]));
          }};
}

// Stored labels of places in a batch.
void mark_ignored(const StoredTensor& tensor, std::byte* place) {
  auto* const labels = reinterpret_cast<int32_t*>(place);
  std::replace(labels, labels + tensor.shape.count(), int32_t{kNoLabel}, kIgnoredLabel);
}

BatchTensors labels_of_places(const StoredTensor& tensor, const std::vector<Label>& labels) {
  BatchTensors made = same_numbers<int32_t>(tensor, labels, DataType::kInt32);
  made.write = [&tensor, write = std::move(made.write)](uint32_t epoch, uint32_t example,
                                                        std::byte* const* places) {
    write(epoch, example, places);
    mark_ignored(tensor, places[0]);
  };
  return made;
}

// Labels of pixels, which stay with the pixels that they are of.
BatchTensors moved_labels(const StoredTensor& tensor, const std::vector<Label>& labels,
                          const Augmentation& augmentation, uint64_t seed) {
  return {{{tensor.name, DataType::kInt32, tensor.shape}},
          [&tensor, &labels, augmentation, seed](uint32_t epoch, uint32_t example,
                                                 std::byte* const* places) {
            const Shape& shape = tensor.shape;
            move_labels(labels.data() + example * shape.count(), shape[0], shape[1], augmentation,
                        augment_bits(seed, epoch, example), kIgnoredLabel,
                        reinterpret_cast<int32_t*>(places[0]));
            mark_ignored(tensor, places[0]);
          }};
}

// Whether a tensor has a label for each pixel of the set's pictures.
bool are_of_pixels(const StoredTensor& labels, const ExampleSet& set) {
  return labels.shape.rank == 2 &&
         std::any_of(set.tensors.begin(), set.tensors.end(), [&](const StoredTensor& tensor) {
           return std::holds_alternative<std::vector<uint8_t>>(tensor.numbers) &&
                  tensor.shape[0] == labels.shape[0] && tensor.shape[1] == labels.shape[1];
         });
}

// The one place that says how a stored tensor comes into batches.
BatchTensors batch_tensors(const StoredTensor& tensor, const ExampleSet& set,
                           const Augmentation& augmentation, uint64_t seed) {
  const auto* const bytes = std::get_if<std::vector<uint8_t>>(&tensor.numbers);
  const auto* const words = std::get_if<std::vector<int16_t>>(&tensor.numbers);
  const auto* const labels = std::get_if<std::vector<Label>>(&tensor.numbers);
  if (tensor.padding) return padded_tokens(tensor, *words);
  if (bytes != nullptr && augmentation != Augmentation{}) {
    return augmented_pixels(tensor, *bytes, augmentation, seed);
  }
  if (bytes != nullptr) return same_numbers<uint8_t>(tensor, *bytes, DataType::kUint8);
  if (words != nullptr) return same_numbers<int16_t>(tensor, *words, DataType::kInt16);
  if (labels != nullptr && augmentation.moves() && are_of_pixels(tensor, set)) {
    return moved_labels(tensor, *labels, augmentation, seed);
  }
  if (labels != nullptr && tensor.shape.rank > 0) return labels_of_places(tensor, *labels);
  if (labels != nullptr) return same_numbers<int32_t>(tensor, *labels, DataType::kInt32);
  return same_numbers<int32_t>(tensor, std::get<std::vector<int32_t>>(tensor.numbers),
                               DataType::kInt32);
}

}  // namespace

int64_t example_bytes(std::span<const TensorSpec> specs, bool has_lengths) {
  int64_t bytes = sizeof(uint32_t) + (has_lengths ? sizeof(int32_t) : 0);
  for (const TensorSpec& spec : specs) bytes += spec.bytes();
  return bytes;
}

Examples array_examples(int64_t count, std::vector<ExampleArray> arrays,
                        std::span<const int32_t> lengths) {
  Examples examples;
  examples.count = count;
  for (const ExampleArray& array : arrays) examples.specs.push_back(array.spec);
  if (!lengths.empty()) {
    examples.length = [lengths](uint32_t example) { return lengths[example]; };
  }
  examples.write = [arrays = std::move(arrays)](uint32_t, uint32_t example,
                                                std::span<std::byte* const> places) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      const int64_t bytes = arrays[i].spec.bytes();
      std::memcpy(places[i], static_cast<const std::byte*>(arrays[i].data) + example * bytes,
                  static_cast<size_t>(bytes));
    }
  };
  return examples;
}

namespace {

Examples examples_with(const ExampleSet& set, bool with_targets, const Augmentation& augmentation,
                       uint64_t seed) {
  Examples examples;
  examples.count = set.count;
  std::vector<BatchTensors> all;
  for (const StoredTensor& tensor : set.tensors) {
    if (!with_targets && !tensor.is_input()) continue;
    const BatchTensors& one = all.emplace_back(batch_tensors(tensor, set, augmentation, seed));
    examples.specs.insert(examples.specs.end(), one.specs.begin(), one.specs.end());
    if (one.length != nullptr) examples.length = one.length;
  }
  examples.write = [all = std::move(all)](uint32_t epoch, uint32_t example,
                                          std::span<std::byte* const> places) {
    std::byte* const* place = places.data();
    for (const BatchTensors& one : all) {
      one.write(epoch, example, place);
      place += one.specs.size();
    }
  };
  return examples;
}

}  // namespace

Examples examples_of(const ExampleSet& set, const Augmentation& augmentation, uint64_t seed) {
  return examples_with(set, true, augmentation, seed);
}

Examples inputs_of(const ExampleSet& set) { return examples_with(set, false, {}, 0); }

Examples examples_from(int64_t first, int64_t count, Examples examples) {
  examples.count = count;
  const auto offset = static_cast<uint32_t>(first);
  examples.write = [write = std::move(examples.write), offset](uint32_t epoch, uint32_t example,
                                                               std::span<std::byte* const> places) {
    write(epoch, offset + example, places);
  };
  if (examples.length != nullptr) {
    examples.length = [length = std::move(examples.length), offset](uint32_t example) {
      return length(offset + example);
    };
  }
  return examples;
}

}  // namespace mantissa
