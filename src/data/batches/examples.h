// Examples of any kind, as sources of batches draw them: a description and a function that writes
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/batches/batch.h"
#include "data/datasets/dataset.h"
#include "data/pictures/augment.h"

namespace mantissa {

// A value: the objects that its functions refer to outlive it.
struct Examples {
  int64_t count = 0;
  std::vector<TensorSpec> specs;
  // Writes an example, as it is in that epoch, to one place for each spec. The result depends on
  // the arguments alone. May be called from any thread, allocates nothing.
  std::function<void(uint32_t epoch, uint32_t example, std::span<std::byte* const> places)> write;
  // The length of an example's sequence; null if all are whole.
  std::function<int32_t(uint32_t example)> length;
};

// Bytes that one example takes in a batch: its tensors, its number and, if it has one, its length.
int64_t example_bytes(std::span<const TensorSpec> specs, bool has_lengths);

// An array in memory that has an element of its spec for each example.
struct ExampleArray {
  TensorSpec spec;
  const void* data = nullptr;  // [count] and then the spec's shape
};

// Examples, each of which is a part of each array. `lengths` has one entry for each example, or is
// empty.
Examples array_examples(int64_t count, std::vector<ExampleArray> arrays,
                        std::span<const int32_t> lengths = {});

// The tensors of labelled pictures, by the names of inputs in networks for pictures.
constexpr const char* kPixelTensor = "pixels";  // uint8 [height, width, channels]
constexpr const char* kLabelTensor = "labels";  // int32 []
constexpr int32_t kIgnoredLabel = -1;           // a loss does not count it
std::vector<TensorSpec> picture_specs(int64_t height, int64_t width, int64_t channels);

// The weight of each label in the loss, if the data have some (tensor/table_numbers.h).
constexpr const char* kWeightTensor = "weights";  // int16, the shape of the labels

// The tensors of tables: numbers as mantissas (tensor/table_numbers.h), and a label as above or
// a number to predict.
constexpr const char* kNumberTensor = "numbers";  // int16 [features]
constexpr const char* kTargetTensor = "targets";  // int16 [1]
std::vector<TensorSpec> table_specs(int64_t features, bool is_regression);

// The tensors of texts with a label: tokens, segments of 0, how many tokens there are, the label.
std::vector<TensorSpec> labelled_text_specs(int64_t sequence);
constexpr const char* kTokenTensor = "tokens";      // int32 [sequence]
constexpr const char* kSegmentTensor = "segments";  // int32 [sequence]
constexpr const char* kLengthTensor = "lengths";    // int32 []

// The tensors of a data set.
std::vector<TensorSpec> example_specs(const DatasetInfo& data);

// Labelled pictures, changed in each epoch as `augmentation` says by the random numbers of `seed`.
// Without an augmentation they are the same in each.
Examples picture_examples(const ImageSet& images, const Augmentation& augmentation = {},
                          uint64_t seed = 0);

// Texts of a set with padding, and their weights if they have some; without labels these are 0.
Examples labelled_text_examples(const ImageSet& set);

// Pictures as above, or rows of a table, texts among them, with their weights if they
// have some.
Examples examples_of(const ImageSet& set, const Augmentation& augmentation = {}, uint64_t seed = 0);

}  // namespace mantissa
