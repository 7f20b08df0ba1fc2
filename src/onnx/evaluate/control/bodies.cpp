#include "onnx/evaluate/control/bodies.h"

#include <algorithm>
#include <utility>

#include "onnx/evaluate/copy.h"

namespace mantissa::onnx {

const GraphData* graph_attribute(const NodeData& node, const char* name) {
  for (const NodeAttribute& attribute : node.attributes) {
    if (attribute.name != name) continue;
    const auto* graph = std::get_if<std::shared_ptr<const GraphData>>(&attribute.value);
    return graph == nullptr ? nullptr : graph->get();
  }
  return nullptr;
}

void keep_common(Values& values, const Values& others) {
  for (size_t i = 0; i < values.size(); ++i) {
    EvaluatedValue& value = values[i];
    const EvaluatedValue& other = others[i];
    value.known = false;
    value.tensor.bytes = {};
    value.shaped = value.shaped && other.shaped && value.kind == ValueKind::kTensor &&
                   other.kind == ValueKind::kTensor && value.tensor.type == other.tensor.type &&
                   value.tensor.dims == other.tensor.dims;
    if (!value.shaped) value = EvaluatedValue();
  }
}

EvaluatedValue shape_of(EvaluatedValue value) {
  if (value.kind != ValueKind::kTensor) return {};
  value.known = false;
  value.tensor.bytes = {};
  return value;
}

Result<Values> run_body(Interpreter& interpreter, const GraphData& body, const Scope& around,
                        Values inputs, size_t outputs) {
  if (body.inputs.size() != inputs.size() || body.outputs.size() != outputs) {
    return invalid_input("a body with another number of inputs or outputs");
  }
  constexpr int64_t kMostWalks = 1 << 16;
  if (interpreter.shapes_only && ++interpreter.body_walks > kMostWalks) {
    return invalid_input("loops within loops, too many to look through");
  }
  Scope inner{{}, &around};
  for (size_t i = 0; i < inputs.size(); ++i) {
    inner.values[body.inputs[i].name] = std::move(inputs[i]);
  }
  add_initialisers(body, inner);
  Values results = interpreter.run_graph(body, inner, false);
  if (!interpreter.shapes_only) {
    if (!interpreter.problems.empty()) return Values(outputs);
    for (const EvaluatedValue& value : results) {
      if (!value.known) return invalid_input("a body whose output has no numbers");
    }
  }
  return results;
}

bool find_inputs(const NodeData& node, const Scope& scope, size_t first, Values& found) {
  bool all = true;
  for (size_t i = first; i < node.inputs.size(); ++i) {
    const EvaluatedValue* value = scope.find(node.inputs[i]);
    all = all && value != nullptr && value->shaped;
    found.push_back(value == nullptr ? EvaluatedValue() : *value);
  }
  return all;
}

Result<EvaluatedValue> stacked(const Values& parts, int64_t axis, bool reverse) {
  const ElementType type = parts[0].tensor.type;
  Dims dims = parts[0].tensor.dims;
  const auto rank = static_cast<int64_t>(dims.size()) + 1;
  if (axis < -rank || axis >= rank) return invalid_input("axis " + std::to_string(axis));
  axis += axis < 0 ? rank : 0;
  const int64_t inner = count_of({dims.begin() + axis, dims.end()});
  const int64_t outer = count_of({dims.begin(), dims.begin() + axis});
  const auto count = static_cast<int64_t>(parts.size());
  dims.insert(dims.begin() + axis, count);
  EvaluatedValue result{{}, true, true};
  MANTISSA_ASSIGN(result.tensor, allocate(type, dims));
  for (int64_t i = 0; i < count; ++i) {
    if (parts[i].kind != ValueKind::kTensor || parts[i].tensor.type != type ||
        parts[i].tensor.dims != parts[0].tensor.dims) {
      return invalid_input("results of different types or dims in a loop");
    }
    const int64_t place = reverse ? count - 1 - i : i;
    MANTISSA_RETURN_IF_ERROR(with_size(type, [&]<typename U>() -> Status {
      MANTISSA_ASSIGN(const TensorData part, aligned(parts[i].tensor));
      for (int64_t o = 0; o < outer; ++o) {
        std::copy_n(numbers<U>(part).data() + o * inner, inner,
                    writable<U>(result.tensor).data() + (o * count + place) * inner);
      }
      return {};
    }));
  }
  return result;
}

}  // namespace mantissa::onnx
