#include "plan/programs/exponent_table.h"

#include <array>

namespace mantissa {

ExponentRule value_rule(const Op& producer, bool is_wide, ExponentMode mode) {
  if (is_wide || passes_mantissas(producer) || has_own_grid(producer))
    return ExponentRule::kInherited;
  switch (mode) {
    case ExponentMode::kExact:
      return ExponentRule::kOwnMaximum;
    case ExponentMode::kPredicted:
      return ExponentRule::kPredicted;
    case ExponentMode::kFixed:
      return ExponentRule::kFixed;
    case ExponentMode::kCalibrate:
      return ExponentRule::kCalibrated;
    case ExponentMode::kDecided:
      return ExponentRule::kDecided;
  }
  return ExponentRule::kNone;
}

ExponentRule gradient_rule(const Grid& grid, bool rounds, const Format& format) {
  if (grid.scaling == Scaling::kReal) return ExponentRule::kNone;
  if (!rounds) return ExponentRule::kInherited;
  if (format.is_dynamic()) return ExponentRule::kDecided;
  return format.headroom ? ExponentRule::kHeadroom : ExponentRule::kOwnMaximum;
}

Exponent gradient_exponent(const ExponentSlots& slots, ExponentOwner owner, int node, int input,
                           const Grid& grid, bool rounds, const Format& format) {
  const bool is_sum = owner == ExponentOwner::kGradientSum || owner == ExponentOwner::kRoundedSum;
  const bool is_rounded =
      owner == ExponentOwner::kRoundedGradient || owner == ExponentOwner::kRoundedSum;
  const int slot = slots.gradient(node, input) + (is_sum ? 1 : 0);
  Exponent exponent{.owner = owner,
                    .of = node,
                    .input = input,
                    .rule = gradient_rule(grid, rounds, format),
                    .key = slot};
  if (is_rounded) {
    exponent.rule = ExponentRule::kOwnMaximum;
    exponent.key += static_cast<int>(slots.gradients);
    return exponent;
  }
  // The state of dynamic fixed point has a place for each.
  const bool has_predictor = is_predicted(exponent) || format.is_dynamic();
  if (has_predictor) exponent.predictor = slot;
  return exponent;
}

std::string_view exponent_rule_name(ExponentRule rule) {
  constexpr std::array<std::string_view, 10> kNames = {
      "none",    "inherited",  "own maximum", "predicted", "headroom",
      "decided", "calibrated", "fixed",       "rows",      "updated"};
  return kNames[static_cast<size_t>(rule)];
}

std::string exponent_name(const Graph& graph, const Exponent& exponent) {
  const auto gradient = [&](const char* what) {
    const Node& node = graph.nodes[exponent.of];
    return std::string(what) + graph.values[node.inputs[exponent.input]].name + " from " +
           node.name;
  };
  switch (exponent.owner) {
    case ExponentOwner::kValue:
      return graph.values[exponent.of].name;
    case ExponentOwner::kGradient:
      return gradient("gradient of ");
    case ExponentOwner::kGradientSum:
      return gradient("gradients of ") + " on";
    case ExponentOwner::kRoundedGradient:
      return gradient("gradient of ") + ", rounded";
    case ExponentOwner::kRoundedSum:
      return gradient("gradients of ") + " on, rounded";
    case ExponentOwner::kParameter:
      return graph.parameters[exponent.of].name;
    case ExponentOwner::kParameterGradient:
      return "gradient of " + graph.parameters[exponent.of].name;
    case ExponentOwner::kVelocity:
      return "velocity of " + graph.parameters[exponent.of].name;
  }
  return "";
}

}  // namespace mantissa
