// Sequences of tensors, and optional values. Both are values in memory alone: files of inputs and
// outputs have none.
#include <algorithm>
#include <utility>

#include "onnx/evaluate/copy.h"
#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

using Items = std::vector<EvaluatedValue>;

Result<Items> items_of(OpCall& call, size_t i) {
  if (call.value(i).kind == ValueKind::kSequence) return *call.value(i).items;
  return invalid_input("input " + std::to_string(i) + " is no sequence");
}

Status give_sequence(OpCall& call, Items items) {
  return call.give(0, value_of_items(ValueKind::kSequence, std::move(items)));
}

// A place in a sequence; `end`: one behind its last element is possible, too.
Result<int64_t> place_in(OpCall& call, size_t i, size_t size, int64_t end) {
  MANTISSA_ASSIGN(const std::vector<int64_t> given, call.whole(i));
  const auto count = static_cast<int64_t>(size);
  if (given.size() != 1 || given[0] < -count || given[0] >= count + end) {
    return invalid_input("place " + to_text(given) + " of a sequence of " + std::to_string(size));
  }
  return given[0] < 0 ? given[0] + count : given[0];
}

Status sequence_empty(OpCall& call) {
  call.integer("dtype", 1);
  return give_sequence(call, {});
}

Status sequence_construct(OpCall& call) {
  Items items;
  for (size_t i = 0; i < call.input_count(); ++i) {
    if (!call.has(i) || call.value(i).kind != ValueKind::kTensor || call.type(i) != call.type(0)) {
      return invalid_input("elements of different types");
    }
    items.push_back(call.value(i));
  }
  return give_sequence(call, std::move(items));
}

Status sequence_at(OpCall& call) {
  MANTISSA_ASSIGN(const Items items, items_of(call, 0));
  MANTISSA_ASSIGN(const int64_t place, place_in(call, 1, items.size(), 0));
  return call.give(0, items[place]);
}

Status sequence_insert(OpCall& call) {
  MANTISSA_ASSIGN(Items items, items_of(call, 0));
  auto place = static_cast<int64_t>(items.size());
  if (call.has(2)) {
    MANTISSA_ASSIGN(place, place_in(call, 2, items.size(), 1));
  }
  items.insert(items.begin() + place, call.value(1));
  return give_sequence(call, std::move(items));
}

Status sequence_erase(OpCall& call) {
  MANTISSA_ASSIGN(Items items, items_of(call, 0));
  auto place = static_cast<int64_t>(items.size()) - 1;
  if (call.has(1)) {
    MANTISSA_ASSIGN(place, place_in(call, 1, items.size(), 0));
  }
  if (items.empty()) return invalid_input("an empty sequence");
  items.erase(items.begin() + place);
  return give_sequence(call, std::move(items));
}

Status sequence_length(OpCall& call) {
  MANTISSA_ASSIGN(const Items items, items_of(call, 0));
  MANTISSA_RETURN_IF_ERROR(call.make_known(0, ElementType::kInt64, {}));
  *call.out<int64_t>(0) = static_cast<int64_t>(items.size());
  return {};
}

// The sizes of the parts along the axis. One size for all: the last part may be smaller.
Result<std::vector<int64_t>> part_sizes(OpCall& call, int64_t size) {
  if (!call.has(1)) return std::vector<int64_t>(static_cast<size_t>(size), 1);
  MANTISSA_ASSIGN(std::vector<int64_t> sizes, call.whole(1));
  if (call.rank(1) == 0) {
    const int64_t each = sizes[0];
    if (each < 1) return invalid_input("parts of " + std::to_string(each));
    sizes.assign(static_cast<size_t>((size + each - 1) / each), each);
    if (size % each != 0) sizes.back() = size % each;
  }
  int64_t left = size;
  for (const int64_t part : sizes) {
    if (part < 0 || part > left) return invalid_input("parts of " + to_text(sizes));
    left -= part;
  }
  if (left != 0) return invalid_input("parts of " + to_text(sizes));
  return sizes;
}

Status split_to_sequence(OpCall& call) {
  if (call.value(0).kind != ValueKind::kTensor) return invalid_input("a sequence is split");
  MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", 0), call.rank(0)));
  const bool keeps = call.has(1) || call.integer("keepdims", 1) != 0;
  const Dims& from = call.dims(0);
  MANTISSA_ASSIGN(const std::vector<int64_t> sizes, part_sizes(call, from[axis]));
  return with_size(call.type(0), [&]<typename U>() -> Status {
    const int64_t outer = count_of({from.begin(), from.begin() + axis});
    const int64_t inner = count_of({from.begin() + axis + 1, from.end()});
    Items items;
    int64_t begin = 0;
    for (const int64_t size : sizes) {
      EvaluatedValue part;
      Dims dims = from;
      dims[axis] = size;
      MANTISSA_RETURN_IF_ERROR(value_bytes(call.type(0), dims));
      part.tensor.type = call.type(0);
      part.shaped = true;
      part.known = !call.shapes_only();
      if (part.known) {
        MANTISSA_ASSIGN(part.tensor, allocate(call.type(0), dims));
        for (int64_t o = 0; o < outer; ++o) {
          std::copy_n(call.data<U>(0) + (o * from[axis] + begin) * inner, size * inner,
                      writable<U>(part.tensor).data() + o * size * inner);
        }
      }
      if (!keeps) dims.erase(dims.begin() + axis);
      part.tensor.dims = dims;
      items.push_back(std::move(part));
      begin += size;
    }
    return give_sequence(call, std::move(items));
  });
}

// The elements beside each other along an axis, which may be new.
Status concat_from_sequence(OpCall& call) {
  MANTISSA_ASSIGN(const Items items, items_of(call, 0));
  if (items.empty()) return invalid_input("an empty sequence");
  const bool is_new = call.integer("new_axis", 0) != 0;
  Dims dims = items[0].tensor.dims;
  const int64_t rank = static_cast<int64_t>(dims.size()) + (is_new ? 1 : 0);
  MANTISSA_ASSIGN(const int64_t axis, call.axis(call.integer("axis", 0), rank));
  if (is_new) dims.insert(dims.begin() + axis, 1);
  const Dims first = dims;
  dims[axis] = 0;
  std::vector<int64_t> sizes;
  for (const EvaluatedValue& item : items) {
    Dims own = item.tensor.dims;
    if (is_new) own.insert(own.begin() + std::min<int64_t>(axis, std::ssize(own)), 1);
    const bool same_rank = own.size() == first.size();
    sizes.push_back(same_rank ? own[axis] : 0);
    if (same_rank) own[axis] = first[axis];
    if (own != first || !item.shaped || item.tensor.type != items[0].tensor.type) {
      return invalid_input("elements of different dims or types");
    }
    dims[axis] += sizes.back();
  }
  return with_size(items[0].tensor.type, [&]<typename U>() -> Status {
    MANTISSA_RETURN_IF_ERROR(call.make(0, items[0].tensor.type, dims));
    if (call.shapes_only()) return {};
    const int64_t outer = count_of({dims.begin(), dims.begin() + axis});
    const int64_t inner = count_of({dims.begin() + axis + 1, dims.end()});
    U* out = call.out<U>(0);
    for (int64_t o = 0; o < outer; ++o) {
      for (size_t i = 0; i < items.size(); ++i) {
        MANTISSA_ASSIGN(const TensorData tensor, aligned(items[i].tensor));
        const int64_t part = sizes[i] * inner;
        out = std::copy_n(numbers<U>(tensor).data() + o * part, part, out);
      }
    }
    return {};
  });
}

Status optional(OpCall& call) {
  Items items;
  if (call.input_count() > 0) items.push_back(call.value(0));
  return call.give(0, value_of_items(ValueKind::kOptional, std::move(items)));
}

Status optional_has_element(OpCall& call) {
  const bool has = call.input_count() > 0 &&
                   (call.value(0).kind != ValueKind::kOptional || !call.value(0).items->empty());
  MANTISSA_RETURN_IF_ERROR(call.make_known(0, ElementType::kBool, {}));
  *call.out<bool>(0) = has;
  return {};
}

Status optional_get_element(OpCall& call) {
  const EvaluatedValue& value = call.value(0);
  if (value.kind != ValueKind::kOptional) return call.give(0, value);
  if (value.items->empty()) return invalid_input("an optional value without an element");
  return call.give(0, value.items->front());
}

constexpr OpRow kSequenceRows[] = {
    {"SequenceEmpty", 11, sequence_empty, 0, "dtype", kNewestOpset, 1, true},
    {"SequenceConstruct", 11, sequence_construct, {1, kMany}, "", kNewestOpset, 1, true},
    {"SequenceAt", 11, sequence_at, 2, "", kNewestOpset, 1, true},
    {"SequenceInsert", 11, sequence_insert, {2, 3}, "", kNewestOpset, 1, true},
    {"SequenceErase", 11, sequence_erase, {1, 2}, "", kNewestOpset, 1, true},
    {"SequenceLength", 11, sequence_length, 1, "", kNewestOpset, 1, true},
    {"SplitToSequence", 11, split_to_sequence, {1, 2}, "axis keepdims", kNewestOpset, 1, true},
    {"ConcatFromSequence", 11, concat_from_sequence, 1, "axis new_axis", kNewestOpset, 1, true},
    {"Optional", 15, optional, {0, 1}, "type", kNewestOpset, 1, true},
    {"OptionalHasElement", 15, optional_has_element, {0, 1}, "", kNewestOpset, 1, true},
    {"OptionalGetElement", 15, optional_get_element, 1, "", kNewestOpset, 1, true},
};

}  // namespace

std::span<const OpRow> sequence_operators() { return kSequenceRows; }

}  // namespace mantissa::onnx
