#include "onnx/evaluate/operators/recurrent/recurrent_settings.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace mantissa::onnx {
namespace {

constexpr std::pair<std::string_view, GateFunction> kFunctions[] = {
    {"Sigmoid", [](float x) { return 1 / (1 + std::exp(-x)); }},
    {"Tanh", [](float x) { return std::tanh(x); }},
    {"Relu", [](float x) { return std::max(x, 0.0f); }},
};

Status check_dims(const OpCall& call, size_t input, const Dims& wanted) {
  if (!call.has(input) || call.dims(input) == wanted) return {};
  return invalid_input("input " + std::to_string(input) + " has dims " + to_text(call.dims(input)) +
                       " instead of " + to_text(wanted));
}

Result<RecurrentSizes> sizes_of(OpCall& call, int64_t gates, const std::string& direction) {
  RecurrentSizes s{.gates = gates, .by_example = call.integer("layout", 0) != 0};
  if (call.rank(kX) != 3 || call.rank(kW) != 3 || call.rank(kR) != 3) {
    return invalid_input("values or weights of rank other than 3");
  }
  const Dims &x = call.dims(kX), &r = call.dims(kR);
  s.steps = x[s.by_example ? 1 : 0];
  s.batch = x[s.by_example ? 0 : 1];
  s.inputs = x[2];
  s.channels = r[2];
  s.directions = direction == "bidirectional" ? 2 : 1;
  if (direction != "forward" && direction != "reverse" && s.directions == 1) {
    return invalid_input("the direction '" + direction + "'");
  }
  if (call.has_attribute("hidden_size") && call.integer("hidden_size", 0) != s.channels) {
    return invalid_input("a hidden_size other than that of its weights");
  }
  return s;
}

Status check_inputs(OpCall& call, const RecurrentSizes& s) {
  const Dims state = s.by_example ? Dims{s.batch, s.directions, s.channels}
                                  : Dims{s.directions, s.batch, s.channels};
  MANTISSA_RETURN_IF_ERROR(check_dims(call, kW, {s.directions, s.columns(), s.inputs}));
  MANTISSA_RETURN_IF_ERROR(check_dims(call, kR, {s.directions, s.columns(), s.channels}));
  MANTISSA_RETURN_IF_ERROR(check_dims(call, kB, {s.directions, 2 * s.columns()}));
  MANTISSA_RETURN_IF_ERROR(check_dims(call, kLengths, {s.batch}));
  MANTISSA_RETURN_IF_ERROR(check_dims(call, kStart, state));
  MANTISSA_RETURN_IF_ERROR(check_dims(call, kStartCell, state));
  MANTISSA_RETURN_IF_ERROR(check_dims(call, kPeepholes, {s.directions, 3 * s.channels}));
  for (const size_t input : {kX, kW, kR, kB, kStart, kStartCell, kPeepholes}) {
    if (call.has(input) && call.type(input) != ElementType::kFloat) {
      return invalid_input("numbers of other types than float");
    }
  }
  if (!call.has(kLengths) || call.type(kLengths) == ElementType::kInt32) return {};
  return invalid_input("lengths that are not int32");
}

Result<std::vector<GateFunction>> functions_of(OpCall& call, int64_t directions,
                                               const std::vector<std::string>& defaults) {
  std::vector<std::string> names;
  for (const NodeAttribute& attribute : call.node().attributes) {
    if (attribute.name == "activation_alpha" || attribute.name == "activation_beta") {
      const auto* numbers = std::get_if<std::vector<float>>(&attribute.value);
      if (numbers == nullptr || !numbers->empty()) {
        return invalid_input("activations with parameters");
      }
    }
    const auto* list = std::get_if<std::vector<std::string>>(&attribute.value);
    if (attribute.name == "activations" && list != nullptr) names = *list;
  }
  if (names.empty()) {
    for (int64_t i = 0; i < directions; ++i) {
      names.insert(names.end(), defaults.begin(), defaults.end());
    }
  }
  if (std::ssize(names) != directions * std::ssize(defaults)) {
    return invalid_input(std::to_string(names.size()) + " activations");
  }
  std::vector<GateFunction> functions;
  for (const std::string& name : names) {
    const auto* found = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                     [&](const auto& known) { return known.first == name; });
    if (found == std::end(kFunctions)) return invalid_input("the activation '" + name + "'");
    functions.push_back(found->second);
  }
  return functions;
}

}  // namespace

Result<RecurrentSettings> recurrent_settings(OpCall& call, int64_t gates,
                                             const std::vector<std::string>& defaults) {
  RecurrentSettings settings;
  settings.direction = call.text("direction", "forward");
  MANTISSA_ASSIGN(settings.sizes, sizes_of(call, gates, settings.direction));
  MANTISSA_RETURN_IF_ERROR(check_inputs(call, settings.sizes));
  MANTISSA_ASSIGN(settings.functions, functions_of(call, settings.sizes.directions, defaults));
  if (call.has_attribute("clip")) settings.clip = call.real("clip", 0);
  settings.couples = call.integer("input_forget", 0) != 0;
  settings.resets_product = call.integer("linear_before_reset", 0) != 0;
  return settings;
}

}  // namespace mantissa::onnx
