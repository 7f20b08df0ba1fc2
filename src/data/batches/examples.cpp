#include "data/batches/examples.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mantissa {
namespace {

constexpr uint8_t kBlack = 0;
const TensorSpec kWeightSpec{kWeightTensor, DataType::kInt16, Shape{}};

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

std::vector<TensorSpec> picture_specs(int64_t height, int64_t width, int64_t channels) {
  return {{kPixelTensor, DataType::kUint8, Shape{height, width, channels}},
          {kLabelTensor, DataType::kInt32, Shape{}}};
}

std::vector<TensorSpec> table_specs(int64_t features, bool is_regression) {
  const TensorSpec labels{kLabelTensor, DataType::kInt32, Shape{}};
  const TensorSpec targets{kTargetTensor, DataType::kInt16, Shape{1}};
  return {{kNumberTensor, DataType::kInt16, Shape{features}}, is_regression ? targets : labels};
}

std::vector<TensorSpec> labelled_text_specs(int64_t sequence) {
  return {{kTokenTensor, DataType::kInt32, Shape{sequence}},
          {kSegmentTensor, DataType::kInt32, Shape{sequence}},
          {kLengthTensor, DataType::kInt32, Shape{}},
          {kLabelTensor, DataType::kInt32, Shape{}}};
}

std::vector<TensorSpec> example_specs(const DatasetInfo& data) {
  if (!data.table) return picture_specs(data.height, data.width, data.channels);
  std::vector<TensorSpec> specs = data.table->text
                                      ? labelled_text_specs(data.table->text->sequence)
                                      : table_specs(data.table->features(), data.is_regression());
  if (data.has_row_weights()) specs.push_back(kWeightSpec);
  return specs;
}

Examples picture_examples(const ImageSet& images, const Augmentation& augmentation, uint64_t seed) {
  Examples examples;
  examples.count = images.count;
  examples.specs = picture_specs(images.height, images.width, images.channels);
  examples.write = [&images, augmentation, seed](uint32_t epoch, uint32_t example,
                                                 std::span<std::byte* const> places) {
    const int64_t bytes = images.example_bytes();
    const uint8_t* from = images.pixels.data() + example * bytes;
    auto* to = reinterpret_cast<uint8_t*>(places[0]);
    if (augmentation == Augmentation{}) {
      std::memcpy(to, from, static_cast<size_t>(bytes));
    } else {
      augment_image(from, images.height, images.width, images.channels, augmentation,
                    augment_bits(seed, epoch, example), kBlack, to);
    }
    const int32_t label = images.labels[example];
    std::memcpy(places[1], &label, sizeof label);
  };
  return examples;
}

Examples labelled_text_examples(const ImageSet& set) {
  Examples examples;
  examples.count = set.count;
  examples.specs = labelled_text_specs(set.features);
  if (!set.weights.empty()) examples.specs.push_back(kWeightSpec);
  const auto tokens_of = [&set](uint32_t example) {
    const auto places = std::span(set.numbers).subspan(example * set.features, set.features);
    return places.first(
        static_cast<size_t>(std::find(places.begin(), places.end(), kNoToken) - places.begin()));
  };
  examples.length = [tokens_of](uint32_t example) {
    return static_cast<int32_t>(tokens_of(example).size());
  };
  examples.write = [&set, tokens_of](uint32_t, uint32_t example,
                                     std::span<std::byte* const> places) {
    const auto from = tokens_of(example);
    auto* tokens = reinterpret_cast<int32_t*>(places[0]);
    std::fill(std::copy(from.begin(), from.end(), tokens), tokens + set.features, *set.padding);
    std::fill_n(reinterpret_cast<int32_t*>(places[1]), set.features, 0);
    *reinterpret_cast<int32_t*>(places[2]) = static_cast<int32_t>(from.size());
    *reinterpret_cast<int32_t*>(places[3]) = set.labels.empty() ? 0 : set.labels[example];
    if (!set.weights.empty()) std::memcpy(places[4], &set.weights[example], sizeof(int16_t));
  };
  return examples;
}

Examples examples_of(const ImageSet& set, const Augmentation& augmentation, uint64_t seed) {
  if (set.features == 0) return picture_examples(set, augmentation, seed);
  if (set.padding) return labelled_text_examples(set);
  Examples examples;
  examples.count = set.count;
  examples.specs = table_specs(set.features, set.labels.empty());
  if (!set.weights.empty()) examples.specs.push_back(kWeightSpec);
  examples.write = [&set](uint32_t, uint32_t example, std::span<std::byte* const> places) {
    std::memcpy(places[0], set.numbers.data() + example * set.features,
                static_cast<size_t>(set.example_bytes()));
    if (set.labels.empty()) {
      std::memcpy(places[1], &set.targets[example], sizeof(int16_t));
    } else {
      const int32_t label = set.labels[example];
      std::memcpy(places[1], &label, sizeof label);
    }
    if (!set.weights.empty()) std::memcpy(places[2], &set.weights[example], sizeof(int16_t));
  };
  return examples;
}

}  // namespace mantissa
