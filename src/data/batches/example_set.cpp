#include "data/batches/example_set.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/sizes.h"
#include "data/batches/epoch_order.h"
#include "data/tokenizers/wordpiece.h"

namespace mantissa {
namespace {

// An epoch that training never reaches.
constexpr uint32_t kSplitEpoch = UINT32_MAX - 1;

// Moves the examples that are marked, or are not, to the front of `to`, and cuts it behind them.
template <typename T>
void move_marked(const std::vector<T>& from, int64_t size, const std::vector<bool>& marked,
                 bool mark, std::vector<T>& to) {
  int64_t moved = 0;
  for (int64_t i = 0; i < std::ssize(marked); ++i) {
    if (marked[static_cast<size_t>(i)] != mark) continue;
    const auto first = from.begin() + i * size;
    if (&from != &to || moved != i) std::copy_n(first, size, to.begin() + moved * size);
    ++moved;
  }
  to.resize(static_cast<size_t>(moved * size));
}

// The tensor of that name, or null.
template <typename Tensors>
auto tensor_named(Tensors& tensors, std::string_view name) -> decltype(tensors.data()) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const StoredTensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

StoredTensor input_tensor(const ArrayInput& input) {
  switch (input.kind) {
    case ArrayKind::kPictures:
      return {input.name, input.shape, std::vector<uint8_t>()};
    case ArrayKind::kNumbers:
      return {input.name, input.shape, std::vector<int16_t>()};
    case ArrayKind::kTokens:
    case ArrayKind::kLengths:
      break;
  }
  return {input.name, input.shape, std::vector<int32_t>()};
}

StoredTensor target_tensor(const TableSchema& schema) {
  const auto targets = std::ssize(schema.more_targets) + 1;
  if (schema.is_regression()) return {kTargetTensor, Shape{targets}, std::vector<int16_t>()};
  if (schema.has_labels()) return {kLabelTensor, Shape{targets}, std::vector<Label>()};
  return {kLabelTensor, schema.label_shape, std::vector<Label>()};
}

// The examples that are marked, `count` of them.
ExampleSet copy_examples(const std::vector<bool>& marked, int64_t count, const ExampleSet& set) {
  ExampleSet copies{.count = count};
  for (const StoredTensor& tensor : set.tensors) {
    const int64_t size = tensor.shape.count();
    std::visit(
        [&](const auto& numbers) {
          std::decay_t<decltype(numbers)> copied(static_cast<size_t>(count * size));
          move_marked(numbers, size, marked, true, copied);
          copies.tensors.push_back({tensor.name, tensor.shape, std::move(copied), tensor.padding,
                                    tensor.is_of_output});
        },
        tensor.numbers);
  }
  return copies;
}

}  // namespace

int64_t StoredTensor::example_bytes() const {
  return std::visit(
      [&](const auto& all) { return shape.count() * static_cast<int64_t>(sizeof(all[0])); },
      numbers);
}

std::span<const std::byte> StoredTensor::bytes() const {
  return std::visit([](const auto& all) { return std::as_bytes(std::span(all)); }, numbers);
}

const StoredTensor* ExampleSet::find(std::string_view name) const {
  return tensor_named(tensors, name);
}

StoredTensor* ExampleSet::find(std::string_view name) { return tensor_named(tensors, name); }

PictureForm ExampleSet::picture_form() const {
  const StoredTensor* const found = find(kPixelTensor);
  if (found == nullptr) return {};
  return {found->shape[0], found->shape[1], found->shape[2]};
}

int64_t ExampleSet::example_bytes() const {
  int64_t bytes = 0;
  for (const StoredTensor& tensor : tensors) bytes += tensor.example_bytes();
  return bytes;
}

int64_t ExampleSet::bytes() const { return count * example_bytes(); }

ExampleSet picture_set(const PictureForm& form, std::vector<uint8_t> pixels,
                       std::vector<Label> labels) {
  ExampleSet set{.count = std::ssize(labels)};
  const Shape shape = {form.height, form.width, form.channels};
  set.tensors.push_back({kPixelTensor, shape, std::move(pixels)});  // a list would copy them
  set.tensors.push_back({kLabelTensor, Shape{}, std::move(labels)});
  return set;
}

ExampleSet row_set(const TableSchema& schema, bool with_weights) {
  using Numbers = std::vector<int16_t>;
  const Shape inputs = schema.is_shaped() ? schema.shape : Shape{schema.features()};
  ExampleSet set;
  if (schema.has_named_inputs()) {
    for (const ArrayInput& input : schema.inputs) set.tensors.push_back(input_tensor(input));
  } else if (schema.text) {
    set.tensors.push_back({kTokenTensor, inputs, Numbers(), schema.text->tokenizer->padding()});
  } else {
    set.tensors.push_back({kNumberTensor, inputs, Numbers()});
  }
  if (schema.picture) {
    set.tensors.push_back({kPixelTensor, schema.picture->shape, std::vector<uint8_t>()});
  }
  for (const TableSchema& output : schema.outputs) {
    StoredTensor& tensor = set.tensors.emplace_back(target_tensor(output));
    tensor.name = output.output;
    tensor.is_of_output = true;
  }
  if (schema.outputs.empty()) set.tensors.push_back(target_tensor(schema));
  if (with_weights && !schema.weights.empty()) {
    set.tensors.push_back({kWeightTensor, Shape{}, Numbers()});
  }
  return set;
}

void erase_examples(const std::vector<bool>& marked, ExampleSet& set) {
  for (StoredTensor& tensor : set.tensors) {
    std::visit(
        [&](auto& numbers) { move_marked(numbers, tensor.shape.count(), marked, false, numbers); },
        tensor.numbers);
  }
  set.count -= std::count(marked.begin(), marked.end(), true);
}

Result<ExampleSet> split_off(ExampleSet& set, uint64_t seed, int64_t count) {
  try {
    std::vector<bool> taken(static_cast<size_t>(set.count));
    {
      const std::vector<uint32_t> order = epoch_order(seed, kSplitEpoch, set.count);
      for (auto last = order.end() - count; last != order.end(); ++last) taken[*last] = true;
    }
    ExampleSet split = copy_examples(taken, count, set);
    erase_examples(taken, set);
    return split;
  } catch (const std::bad_alloc&) {
    return out_of_memory(std::to_string(count) + " validation examples",
                         count * set.example_bytes());
  }
}

}  // namespace mantissa
