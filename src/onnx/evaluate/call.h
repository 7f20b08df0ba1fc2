// One node as its operator's function sees it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/system/thread_pool.h"
#include "onnx/evaluate/numbers.h"
#include "onnx/model.h"

namespace mantissa::onnx {

// A value while a graph is run. Type and dims may be known without the numbers: then the graph's
// shapes can be found before any input is there. `shaped` false: not even those.
struct EvaluatedValue {
  TensorData tensor;
  bool shaped = false;
  bool known = false;
  // Of a sequence: its elements. Of an optional value: one element, or none. Else null.
  ValueKind kind = ValueKind::kTensor;
  std::shared_ptr<const std::vector<EvaluatedValue>> items = {};
};

// A sequence, or an optional value. It is known if all of its elements are.
EvaluatedValue value_of_items(ValueKind kind, std::vector<EvaluatedValue> items);

// An operator's function first checks attributes and inputs and makes the outputs: `make` needs
// only their type and dims. Then it returns if only shapes are asked for.
class OpCall {
 public:
  OpCall(const NodeData& node, int64_t opset, bool shapes_only,
         std::vector<const EvaluatedValue*> inputs, ThreadPool& pool);

  const NodeData& node() const { return node_; }
  int64_t opset() const { return opset_; }
  bool shapes_only() const { return shapes_only_; }
  ThreadPool& pool() { return pool_; }

  size_t input_count() const { return inputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  bool known(size_t i) const { return inputs_[i]->known; }
  const EvaluatedValue& value(size_t i) const { return *inputs_[i]; }
  const TensorData& input(size_t i) const { return inputs_[i]->tensor; }
  const Dims& dims(size_t i) const { return input(i).dims; }
  int64_t rank(size_t i) const { return static_cast<int64_t>(dims(i).size()); }
  ElementType type(size_t i) const { return input(i).type; }
  template <typename T>
  const T* data(size_t i) const {
    return numbers<T>(input(i)).data();
  }

  // Whole numbers or one real number of an input that decides about shapes. If they are not known
  // yet, an error that the caller passes on; undetermined() identifies it.
  Result<std::vector<int64_t>> whole(size_t i);
  Result<std::vector<float>> real_numbers(size_t i);
  bool undetermined() const { return undetermined_; }
  Error not_determined();

  // Attributes. One of another kind is noted, and make() returns the error.
  bool has_attribute(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t otherwise);
  float real(std::string_view name, float otherwise);
  std::string text(std::string_view name, std::string otherwise);
  std::vector<int64_t> integers(std::string_view name);
  std::vector<float> reals(std::string_view name);
  const TensorData* tensor(std::string_view name);

  // Whole numbers that newer operator sets have as an input, older ones as an attribute.
  Result<std::vector<int64_t>> whole(size_t i, std::string_view attribute);

  // An axis, counted from the end if it is negative.
  Result<int64_t> axis(int64_t axis, int64_t rank) const;

  bool wants(size_t i) const { return i < node_.outputs.size() && !node_.outputs[i].empty(); }
  // An output: numbers set to zero, or none in a call for shapes alone.
  Status make(size_t i, ElementType type, Dims dims);
  // An output whose numbers are there even in a call for shapes alone.
  Status make_known(size_t i, ElementType type, Dims dims);
  // An output with an input's numbers, under other dims of the same product.
  Status forward(size_t i, size_t input, Dims dims);
  // An output that is there already.
  Status give(size_t i, EvaluatedValue value);
  TensorData& output(size_t i) { return outputs_[i].tensor; }
  template <typename T>
  T* out(size_t i) {
    return writable<T>(outputs_[i].tensor).data();
  }
  std::vector<EvaluatedValue> take_outputs() { return std::move(outputs_); }

  // Inputs that must be float; a common demand.
  Status check_float(size_t inputs) const;

 private:
  const NodeAttribute* find(std::string_view name) const;
  template <typename T>
  const T* get(std::string_view name);

  const NodeData& node_;
  int64_t opset_;
  bool shapes_only_;
  std::vector<const EvaluatedValue*> inputs_;
  ThreadPool& pool_;
  std::vector<EvaluatedValue> outputs_;
  std::string fault_;
  bool undetermined_ = false;
};

}  // namespace mantissa::onnx
