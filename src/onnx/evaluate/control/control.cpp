// If and Loop.
#include "onnx/evaluate/control.h"

#include <algorithm>
#include <utility>

#include "onnx/evaluate/control/bodies.h"

namespace mantissa::onnx {
namespace {

// A loop that runs longer is taken to be without end.
constexpr int64_t kMostIterations = int64_t{1} << 24;

EvaluatedValue known_number(int64_t number) {
  EvaluatedValue value{*allocate(ElementType::kInt64, {}), true, true};
  writable<int64_t>(value.tensor)[0] = number;
  return value;
}

EvaluatedValue known_truth(bool truth) {
  EvaluatedValue value{*allocate(ElementType::kBool, {}), true, true};
  writable<bool>(value.tensor)[0] = truth;
  return value;
}

// Truth values of files are bytes: all but 0 are true.
bool is_true(const EvaluatedValue& value) { return value.tensor.bytes[0] != std::byte{0}; }

Status check_truth(const EvaluatedValue& value) {
  if (value.shaped &&
      (value.kind != ValueKind::kTensor || value.tensor.type != ElementType::kBool ||
       count_of(value.tensor.dims) != 1)) {
    return invalid_input("a condition that is no single truth value");
  }
  return {};
}

// A result that no iteration made: as its description says, with no place along the axis.
EvaluatedValue nothing_stacked(const ValueData& described) {
  Dims dims = {0};
  for (const Dimension& dim : described.dims) dims.push_back(std::max<int64_t>(dim.size, 0));
  const Result<TensorData> tensor = allocate(described.type, dims);
  return tensor.ok() ? EvaluatedValue{*tensor, true, true} : EvaluatedValue();
}

// Shapes of what a loop carries. They hold if one iteration leaves them as they are; what it
// changes is not known. Each body is walked, so that its problems are found.
Result<Values> carried_shapes(Interpreter& interpreter, const GraphData& body, const Scope& scope,
                              const Values& before, Values state, size_t outputs, size_t skipped) {
  for (EvaluatedValue& value : state) value = shape_of(std::move(value));
  for (int walk = 0;; ++walk) {
    Values inputs = before;
    inputs.insert(inputs.end(), state.begin(), state.end());
    const size_t problems = interpreter.problems.size();
    MANTISSA_ASSIGN(Values results, run_body(interpreter, body, scope, std::move(inputs), outputs));
    if (walk > 0) interpreter.problems.resize(problems);
    Values next(results.begin() + static_cast<int64_t>(skipped),
                results.begin() + static_cast<int64_t>(skipped + state.size()));
    const Values old = state;
    keep_common(state, next);
    const bool stays = std::equal(
        old.begin(), old.end(), state.begin(),
        [](const EvaluatedValue& a, const EvaluatedValue& b) { return a.shaped == b.shaped; });
    if (stays) {
      for (size_t i = 0; i < results.size(); ++i) results[i] = shape_of(results[i]);
      std::copy(state.begin(), state.end(), results.begin() + static_cast<int64_t>(skipped));
      return results;
    }
  }
}

Result<Values> loop_shapes(Interpreter& interpreter, const NodeData& node, const GraphData& body,
                           const Scope& scope, Values state) {
  Values before = {shape_of(known_number(0)), shape_of(known_truth(true))};
  const size_t carried = state.size();
  MANTISSA_ASSIGN(Values results, carried_shapes(interpreter, body, scope, before, std::move(state),
                                                 node.outputs.size() + 1, 1));
  results.erase(results.begin());
  // The number of iterations decides about the others.
  for (size_t i = carried; i < results.size(); ++i) results[i] = EvaluatedValue();
  return results;
}

}  // namespace

Result<Values> run_if(Interpreter& interpreter, const NodeData& node, const Scope& scope) {
  const GraphData* branches[] = {graph_attribute(node, "else_branch"),
                                 graph_attribute(node, "then_branch")};
  const EvaluatedValue* condition = node.inputs.size() == 1 ? scope.find(node.inputs[0]) : nullptr;
  if (branches[0] == nullptr || branches[1] == nullptr || condition == nullptr) {
    return invalid_input("an If without a condition or a branch");
  }
  MANTISSA_RETURN_IF_ERROR(check_truth(*condition));
  std::vector<Values> results;
  for (const bool then : {false, true}) {
    if (condition->known && is_true(*condition) != then) continue;
    const GraphData& branch = *branches[then ? 1 : 0];
    Scope inner{{}, &scope};
    add_initialisers(branch, inner);
    results.push_back(interpreter.run_graph(branch, inner, false));
    if (results.back().size() != node.outputs.size()) {
      return invalid_input("a branch with another number of outputs");
    }
  }
  if (results.size() == 2) keep_common(results[0], results[1]);
  return std::move(results[0]);
}

Result<Values> run_loop(Interpreter& interpreter, const NodeData& node, const Scope& scope) {
  const GraphData* body = graph_attribute(node, "body");
  if (body == nullptr || node.inputs.size() < 2) return invalid_input("a Loop without a body");
  Values state;
  const bool shaped = find_inputs(node, scope, 2, state);
  const size_t carried = state.size();
  if (node.outputs.size() < carried) return invalid_input("a Loop with fewer outputs than states");
  if (interpreter.shapes_only)
    return loop_shapes(interpreter, node, *body, scope, std::move(state));
  if (!shaped) return Values(node.outputs.size());
  int64_t most = INT64_MAX;
  bool goes_on = true;
  if (!node.inputs[0].empty()) {
    const EvaluatedValue* trips = scope.find(node.inputs[0]);
    if (trips == nullptr || !trips->known) return Values(node.outputs.size());
    MANTISSA_ASSIGN(const std::vector<int64_t> given, whole_numbers(trips->tensor));
    if (given.size() != 1) return invalid_input("a number of iterations that is no single number");
    most = given[0];
  }
  if (!node.inputs[1].empty()) {
    const EvaluatedValue* condition = scope.find(node.inputs[1]);
    if (condition == nullptr || !condition->known) return Values(node.outputs.size());
    MANTISSA_RETURN_IF_ERROR(check_truth(*condition));
    goes_on = is_true(*condition);
  }
  std::vector<Values> parts(node.outputs.size() - carried);
  for (int64_t i = 0; i < most && goes_on; ++i) {
    if (i == kMostIterations) return invalid_input("a Loop without end");
    Values inputs = {known_number(i), known_truth(true)};
    std::move(state.begin(), state.end(), std::back_inserter(inputs));
    MANTISSA_ASSIGN(Values results, run_body(interpreter, *body, scope, std::move(inputs),
                                             node.outputs.size() + 1));
    if (!interpreter.problems.empty()) return Values(node.outputs.size());
    MANTISSA_RETURN_IF_ERROR(check_truth(results[0]));
    goes_on = is_true(results[0]);
    const auto middle = results.begin() + 1 + static_cast<int64_t>(carried);
    state.assign(results.begin() + 1, middle);
    for (size_t k = 0; k < parts.size(); ++k) parts[k].push_back(middle[static_cast<int64_t>(k)]);
  }
  for (size_t k = 0; k < parts.size(); ++k) {
    if (parts[k].empty()) {
      state.push_back(nothing_stacked(body->outputs[1 + carried + k]));
      continue;
    }
    MANTISSA_ASSIGN(EvaluatedValue whole, stacked(parts[k], 0, false));
    state.push_back(std::move(whole));
  }
  return state;
}

}  // namespace mantissa::onnx
