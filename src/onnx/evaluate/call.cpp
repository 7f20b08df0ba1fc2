#include "onnx/evaluate/call.h"

#include <utility>

#include "onnx/files/read_context.h"

namespace mantissa::onnx {
namespace {

constexpr int64_t kMostConstantBytes = int64_t{64} << 20;

}  // namespace

EvaluatedValue value_of_items(ValueKind kind, std::vector<EvaluatedValue> items) {
  EvaluatedValue value;
  value.kind = kind;
  value.shaped = value.known = true;
  for (const EvaluatedValue& item : items) value.known = value.known && item.known;
  value.items = std::make_shared<const std::vector<EvaluatedValue>>(std::move(items));
  return value;
}

OpCall::OpCall(const NodeData& node, int64_t opset, bool shapes_only,
               std::vector<const EvaluatedValue*> inputs, ThreadPool& pool)
    : node_(node),
      opset_(opset),
      shapes_only_(shapes_only),
      inputs_(std::move(inputs)),
      pool_(pool),
      outputs_(node.outputs.size()) {}

Error OpCall::not_determined() {
  undetermined_ = true;
  return invalid_input("its shape depends on numbers that are not known");
}

Result<std::vector<int64_t>> OpCall::whole(size_t i) {
  if (!known(i)) return not_determined();
  if (rank(i) > 1) return invalid_input("a list of whole numbers is wanted, of rank 1");
  return whole_numbers(input(i));
}

Result<std::vector<float>> OpCall::real_numbers(size_t i) {
  if (!known(i)) return not_determined();
  std::vector<float> result;
  MANTISSA_RETURN_IF_ERROR(with_type(Floats(), type(i), [&]<typename T>() -> Status {
    for (const T number : numbers<T>(input(i))) result.push_back(static_cast<float>(number));
    return {};
  }));
  return result;
}

const NodeAttribute* OpCall::find(std::string_view name) const {
  for (const NodeAttribute& attribute : node_.attributes) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

template <typename T>
const T* OpCall::get(std::string_view name) {
  const NodeAttribute* attribute = find(name);
  if (attribute == nullptr) return nullptr;
  const T* value = std::get_if<T>(&attribute->value);
  if (value == nullptr) fault_ = describe("attribute", attribute->name) + " is of another type";
  return value;
}

int64_t OpCall::integer(std::string_view name, int64_t otherwise) {
  const auto* value = get<int64_t>(name);
  return value == nullptr ? otherwise : *value;
}

float OpCall::real(std::string_view name, float otherwise) {
  const auto* value = get<float>(name);
  return value == nullptr ? otherwise : *value;
}

std::string OpCall::text(std::string_view name, std::string otherwise) {
  const auto* value = get<std::string>(name);
  return value == nullptr ? std::move(otherwise) : *value;
}

std::vector<int64_t> OpCall::integers(std::string_view name) {
  const auto* value = get<std::vector<int64_t>>(name);
  return value == nullptr ? std::vector<int64_t>() : *value;
}

std::vector<float> OpCall::reals(std::string_view name) {
  const auto* value = get<std::vector<float>>(name);
  return value == nullptr ? std::vector<float>() : *value;
}

const TensorData* OpCall::tensor(std::string_view name) { return get<TensorData>(name); }

Result<std::vector<int64_t>> OpCall::whole(size_t i, std::string_view attribute) {
  return has(i) ? whole(i) : integers(attribute);
}

Result<int64_t> OpCall::axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) {
    return invalid_input("axis " + std::to_string(axis) + " of a value of rank " +
                         std::to_string(rank));
  }
  return axis < 0 ? axis + rank : axis;
}

Status OpCall::make(size_t i, ElementType type, Dims dims) {
  if (!shapes_only_) return make_known(i, type, std::move(dims));
  if (!fault_.empty()) return invalid_input(fault_);
  if (i >= outputs_.size()) return {};
  MANTISSA_RETURN_IF_ERROR(value_bytes(type, dims));
  outputs_[i] = {{"", type, std::move(dims), {}, nullptr}, true, false};
  return {};
}

Status OpCall::make_known(size_t i, ElementType type, Dims dims) {
  if (!fault_.empty()) return invalid_input(fault_);
  if (shapes_only_) {
    MANTISSA_ASSIGN(const int64_t bytes, value_bytes(type, dims));
    if (bytes > kMostConstantBytes) return invalid_input("a constant of dims " + to_text(dims));
  }
  // One that nobody wants may be written all the same.
  if (i >= outputs_.size()) outputs_.resize(i + 1);
  MANTISSA_ASSIGN(outputs_[i].tensor, allocate(type, dims));
  outputs_[i].shaped = true;
  outputs_[i].known = true;
  return {};
}

Status OpCall::forward(size_t i, size_t input, Dims dims) {
  if (!fault_.empty()) return invalid_input(fault_);
  MANTISSA_RETURN_IF_ERROR(value_bytes(type(input), dims));
  outputs_[i] = *inputs_[input];
  outputs_[i].tensor.dims = std::move(dims);
  return {};
}

Status OpCall::give(size_t i, EvaluatedValue value) {
  if (!fault_.empty()) return invalid_input(fault_);
  if (i < outputs_.size()) outputs_[i] = std::move(value);
  return {};
}

Status OpCall::check_float(size_t inputs) const {
  for (size_t i = 0; i < inputs && i < inputs_.size(); ++i) {
    if (inputs_[i] == nullptr || type(i) == ElementType::kFloat) continue;
    return invalid_input(std::string("numbers of type ") + element_name(type(i)) +
                         " are not supported here, only float");
  }
  return {};
}

}  // namespace mantissa::onnx
