// Examples of any kind, as sources of batches draw them: a description and a function that writes
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/batches/batch.h"
#include "data/batches/example_set.h"
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

constexpr int32_t kIgnoredLabel = -1;  // a loss does not count it

// The examples of a set, which outlives them. Tensors are as they are stored, but for these:
// - Labels become int32.
// - Tokens with padding become int32. Segments of 0 and the number of tokens follow them.
// - Pictures are changed in each epoch as `augmentation` says, by the random numbers of `seed`; all
//   of an example by the same. Without an augmentation they are the same in each.
// - Labels of pixels move with the pictures of their size. Those from outside are kIgnoredLabel.
Examples examples_of(const ExampleSet& set, const Augmentation& augmentation = {},
                     uint64_t seed = 0);

// The same without labels, targets and weights.
Examples inputs_of(const ExampleSet& set);

// The examples from `first` on.
Examples examples_from(int64_t first, int64_t count, Examples examples);

}  // namespace mantissa
