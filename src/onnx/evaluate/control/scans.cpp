// Scan and SequenceMap.
#include <algorithm>
#include <utility>

#include "onnx/evaluate/control.h"
#include "onnx/evaluate/control/bodies.h"
#include "onnx/evaluate/copy.h"
#include "onnx/evaluate/op_table.h"

namespace mantissa::onnx {
namespace {

int64_t whole_attribute(const NodeData& node, const char* name, int64_t otherwise) {
  for (const NodeAttribute& attribute : node.attributes) {
    const auto* number = std::get_if<int64_t>(&attribute.value);
    if (attribute.name == name && number != nullptr) return *number;
  }
  return otherwise;
}

std::vector<int64_t> list_attribute(const NodeData& node, const char* name, size_t size) {
  for (const NodeAttribute& attribute : node.attributes) {
    const auto* list = std::get_if<std::vector<int64_t>>(&attribute.value);
    if (attribute.name == name && list != nullptr && list->size() == size) return *list;
  }
  return std::vector<int64_t>(size, 0);
}

// One place along an axis, without that axis.
Result<EvaluatedValue> slice_at(const EvaluatedValue& value, int64_t axis, int64_t place) {
  Dims dims = value.tensor.dims;
  const int64_t size = dims[axis];
  const int64_t inner = count_of({dims.begin() + axis + 1, dims.end()});
  const int64_t outer = count_of({dims.begin(), dims.begin() + axis});
  dims.erase(dims.begin() + axis);
  EvaluatedValue result{{"", value.tensor.type, dims, {}, nullptr}, true, false};
  if (!value.known) return result;
  MANTISSA_ASSIGN(result.tensor, allocate(value.tensor.type, dims));
  result.known = true;
  MANTISSA_RETURN_IF_ERROR(with_size(value.tensor.type, [&]<typename U>() -> Status {
    MANTISSA_ASSIGN(const TensorData tensor, aligned(value.tensor));
    for (int64_t o = 0; o < outer; ++o) {
      std::copy_n(numbers<U>(tensor).data() + (o * size + place) * inner, inner,
                  writable<U>(result.tensor).data() + o * inner);
    }
    return {};
  }));
  return result;
}

}  // namespace

Result<Values> run_scan(Interpreter& interpreter, const NodeData& node, const Scope& scope) {
  const GraphData* body = graph_attribute(node, "body");
  const int64_t scans = whole_attribute(node, "num_scan_inputs", 0);
  const int64_t carried = std::ssize(node.inputs) - scans;
  if (opset_of(node, interpreter.opset) < 9) return invalid_input("not as in operator set 8");
  if (body == nullptr || scans < 1 || carried < 0 || std::ssize(node.outputs) < carried) {
    return invalid_input("a Scan without a body, or with other inputs");
  }
  Values inputs;
  const bool shaped = find_inputs(node, scope, 0, inputs);
  if (!shaped) {
    // Its problems are found, whatever the inputs are.
    if (interpreter.shapes_only) {
      MANTISSA_RETURN_IF_ERROR(
          run_body(interpreter, *body, scope, Values(inputs.size()), node.outputs.size()));
    }
    return Values(node.outputs.size());
  }
  const std::vector<int64_t> backwards =
      list_attribute(node, "scan_input_directions", static_cast<size_t>(scans));
  std::vector<int64_t> axes = list_attribute(node, "scan_input_axes", static_cast<size_t>(scans));
  int64_t length = -1;
  for (int64_t k = 0; k < scans; ++k) {
    const Dims& dims = inputs[carried + k].tensor.dims;
    if (axes[k] < 0) axes[k] += std::ssize(dims);
    if (axes[k] < 0 || axes[k] >= std::ssize(dims) || (length >= 0 && dims[axes[k]] != length)) {
      return invalid_input("inputs of different lengths");
    }
    length = dims[axes[k]];
  }
  const size_t outputs = node.outputs.size() - static_cast<size_t>(carried);
  const std::vector<int64_t> out_axes = list_attribute(node, "scan_output_axes", outputs);
  const std::vector<int64_t> reversed = list_attribute(node, "scan_output_directions", outputs);
  const auto slices = [&](int64_t i, Values& step) -> Status {
    for (int64_t k = 0; k < scans; ++k) {
      const int64_t place = backwards[k] != 0 ? length - 1 - i : i;
      MANTISSA_ASSIGN(EvaluatedValue slice, slice_at(inputs[carried + k], axes[k], place));
      step.push_back(std::move(slice));
    }
    return {};
  };
  Values state(inputs.begin(), inputs.begin() + carried);
  if (interpreter.shapes_only || length == 0) {
    if (length == 0) return invalid_input("a Scan over nothing");
    for (EvaluatedValue& input : inputs) input = shape_of(std::move(input));
    Values step(inputs.begin(), inputs.begin() + carried);
    MANTISSA_RETURN_IF_ERROR(slices(0, step));
    MANTISSA_ASSIGN(Values results,
                    run_body(interpreter, *body, scope, std::move(step), node.outputs.size()));
    keep_common(state, Values(results.begin(), results.begin() + carried));
    state.resize(node.outputs.size());
    return state;
  }
  std::vector<Values> parts(outputs);
  for (int64_t i = 0; i < length; ++i) {
    Values step = std::move(state);
    MANTISSA_RETURN_IF_ERROR(slices(i, step));
    MANTISSA_ASSIGN(Values results,
                    run_body(interpreter, *body, scope, std::move(step), node.outputs.size()));
    if (!interpreter.problems.empty()) return Values(node.outputs.size());
    state.assign(results.begin(), results.begin() + carried);
    for (size_t k = 0; k < outputs; ++k) {
      parts[k].push_back(results[static_cast<size_t>(carried) + k]);
    }
  }
  for (size_t k = 0; k < outputs; ++k) {
    MANTISSA_ASSIGN(EvaluatedValue whole, stacked(parts[k], out_axes[k], reversed[k] != 0));
    state.push_back(std::move(whole));
  }
  return state;
}

Result<Values> run_sequence_map(Interpreter& interpreter, const NodeData& node,
                                const Scope& scope) {
  const GraphData* body = graph_attribute(node, "body");
  if (body == nullptr || node.inputs.empty()) return invalid_input("a SequenceMap without a body");
  Values inputs;
  if (!find_inputs(node, scope, 0, inputs)) {
    if (interpreter.shapes_only) {
      MANTISSA_RETURN_IF_ERROR(
          run_body(interpreter, *body, scope, Values(inputs.size()), node.outputs.size()));
    }
    return Values(node.outputs.size());
  }
  if (inputs[0].kind != ValueKind::kSequence) return invalid_input("input 0 is no sequence");
  std::vector<Values> parts(node.outputs.size());
  for (size_t i = 0; i < inputs[0].items->size(); ++i) {
    Values step;
    for (const EvaluatedValue& input : inputs) {
      const bool is_sequence = input.kind == ValueKind::kSequence;
      if (is_sequence && input.items->size() != inputs[0].items->size()) {
        return invalid_input("sequences of different lengths");
      }
      step.push_back(is_sequence ? (*input.items)[i] : input);
    }
    MANTISSA_ASSIGN(Values results,
                    run_body(interpreter, *body, scope, std::move(step), node.outputs.size()));
    if (!interpreter.shapes_only && !interpreter.problems.empty()) {
      return Values(node.outputs.size());
    }
    for (size_t k = 0; k < parts.size(); ++k) parts[k].push_back(std::move(results[k]));
  }
  Values results;
  for (Values& items : parts) {
    results.push_back(value_of_items(ValueKind::kSequence, std::move(items)));
  }
  return results;
}

}  // namespace mantissa::onnx
