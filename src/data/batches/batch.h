// Batches: named tensors of examples, and where they come from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace mantissa {

// A tensor that examples have: its name, and its type and shape for one example.
struct TensorSpec {
  std::string name;  // "pixels"
  DataType type = DataType::kFloat;
  Shape shape;  // [] for a single number

  int64_t bytes() const { return shape.count() * element_bytes(type); }
  bool operator==(const TensorSpec&) const = default;
};

// "'pixels' (U8 [28, 28, 1])"
inline std::string to_string(const TensorSpec& spec) {
  return "'" + spec.name + "' (" + data_type_name(spec.type) + " " + to_string(spec.shape) + ")";
}

// The spec of that name, or null.
inline const TensorSpec* find_spec(std::span<const TensorSpec> specs, std::string_view name) {
  for (const TensorSpec& spec : specs) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

// Some examples. A view: its maker owns the memory that it points to.
struct Batch {
  int64_t count = 0;                     // of examples; 0 after the last batch
  std::span<const TensorSpec> specs;     // which tensors there are
  std::span<const void* const> tensors;  // one for each spec, [count] and then the spec's shape
  std::span<const uint32_t> examples;    // [count]: their numbers in the data
  // [count]: of each example's sequence as many elements are meant, along the first axis. Empty
  // where all are whole.
  std::span<const int32_t> lengths;

  // The tensor of that name, or null.
  const void* find(std::string_view name) const {
    const TensorSpec* const spec = find_spec(specs, name);
    return spec == nullptr ? nullptr : tensors[static_cast<size_t>(spec - specs.data())];
  }
};

// Gives one batch after the other.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // The next batch, valid until the next call; an empty one after the last. Allocates nothing. To
  // be called from one thread.
  virtual Batch next() = 0;
};

}  // namespace mantissa
