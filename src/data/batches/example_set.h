// The examples of a split in memory: named tensors of any types and shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "data/pictures/resize.h"
#include "data/tables/table_schema.h"
#include "tensor/tensor.h"

namespace mantissa {

// The names of tensors, in sets as in batches and as inputs of networks. The types and shapes are
// those of an example in a batch.
constexpr const char* kPixelTensor = "pixels";      // uint8 [height, width, channels]
// int16 [features], or of arrays [T, C] to [D, H, W, C] (tensor/table_numbers.h)
constexpr const char* kNumberTensor = "numbers";
constexpr const char* kTokenTensor = "tokens";      // int32 [sequence]
constexpr const char* kSegmentTensor = "segments";  // int32 [sequence]
constexpr const char* kLengthTensor = "lengths";    // int32 []
// int32 [sequence]: for each position the one with which its text begins, in packed sequences
constexpr const char* kStartTensor = "segment_starts";
// int32 []; or [labels]: 0 or 1 for each; or [H, W] of pixels
constexpr const char* kLabelTensor = "labels";
constexpr const char* kTargetTensor = "targets";    // int16 [numbers], the numbers to predict
constexpr const char* kWeightTensor = "weights";    // int16, how much each label counts in training

// Whether networks read the tensor of that name, and are not only compared with it.
constexpr bool is_input_name(std::string_view tensor) {
  return tensor != kLabelTensor && tensor != kTargetTensor && tensor != kWeightTensor;
}

// A tensor of all examples of a set.
struct StoredTensor {
  std::string name;
  Shape shape;  // of one example
  // [count] and then the shape.
  std::variant<std::vector<uint8_t>, std::vector<int16_t>, std::vector<Label>, std::vector<int32_t>>
      numbers = {};
  // Only for tokens. A sequence may be shorter than the shape: kNoToken fills the rest, and in
  // batches this token.
  std::optional<int32_t> padding = std::nullopt;
  bool is_of_output = false;  // compared with one of several outputs, which has its name

  bool is_input() const { return !is_of_output && is_input_name(name); }
  int64_t example_bytes() const;
  std::span<const std::byte> bytes() const;

  template <typename T>
  std::vector<T>& as() {
    return std::get<std::vector<T>>(numbers);
  }
};

struct ExampleSet {
  int64_t count = 0;
  std::vector<StoredTensor> tensors = {};  // inputs, then labels or targets, then weights

  const StoredTensor* find(std::string_view name) const;
  StoredTensor* find(std::string_view name);

  // The numbers of a tensor; none if there is no such tensor.
  template <typename T>
  const std::vector<T>& numbers(std::string_view name) const {
    static const std::vector<T> kNone;
    const StoredTensor* const found = find(name);
    return found == nullptr ? kNone : std::get<std::vector<T>>(found->numbers);
  }
  const std::vector<uint8_t>& pixels() const { return numbers<uint8_t>(kPixelTensor); }
  const std::vector<Label>& labels() const { return numbers<Label>(kLabelTensor); }
  // Height, width and channels of its pictures; 0 x 0 x 0 if it has none.
  PictureForm picture_form() const;

  int64_t example_bytes() const;  // of all tensors
  int64_t bytes() const;
};

// A set of pictures.
ExampleSet picture_set(const PictureForm& form, std::vector<uint8_t> pixels,
                       std::vector<Label> labels);

// A set of rows of tables that are encoded by a schema, without rows: numbers, or the tokens of a
// text, and the target; of several outputs a tensor with each one's name.
ExampleSet row_set(const TableSchema& schema, bool with_weights);

// Leaves out the examples that are marked; the others keep their order.
void erase_examples(const std::vector<bool>& marked, ExampleSet& set);

// Takes `count` of the examples out of the set and returns them: the last ones of a permutation
// that is a function of the seed alone. Both keep the order that they had. 0 <= count < set.count.
// An error if there is no memory for the second set.
Result<ExampleSet> split_off(ExampleSet& set, uint64_t seed, int64_t count);

}  // namespace mantissa
