#include "train/export_frozen.h"

#include <nlohmann/json.hpp>

#include "numerics/rounding.h"
#include "plan/grids.h"
#include "plan/network_format.h"
#include "plan/resolved_values.h"

namespace mantissa {
namespace {

// A view of the network: its numbers stay where they are.
onnx::ExportedNetwork exported(const FrozenNetwork& network) {
  const Graph& graph = network.graph;
  const State& state = network.state;
  const StateLayout& layout = state.layout();
  const ResolvedValues resolved = resolve_values(graph);
  const Grids widths = grids(graph, network.description.format);
  onnx::ExportedNetwork result{.graph = &graph,
                               .parameters = {},
                               .exponents = {},
                               .limits = {},
                               .skipped = resolved.skipped,
                               .applies_relu = resolved.fused_relu};
  for (const ParameterState& parameter : layout.parameters) {
    onnx::ExportedParameter one{state.bytes(parameter.mantissa), {}};
    if (parameter.exponent >= 0) {
      one.exponents = {state.data<int16_t>(parameter.exponent),
                       static_cast<size_t>(layout.tensors[parameter.exponent].shape.count())};
    }
    result.parameters.push_back(one);
  }
  for (int value = 0; value < std::ssize(graph.values); ++value) {
    const int canonical = resolved.canonical[value], slot = layout.slots.of_value[canonical];
    result.exponents.push_back(slot < 0 ? 0 : state.data<int16_t>(layout.exponents)[slot]);
    result.limits.push_back(static_cast<int>(mantissa_limit(widths.values[canonical].bits)));
  }
  return result;
}

}  // namespace

Result<onnx::ExportedModel> export_frozen(const FrozenNetwork& network, onnx::ExportTarget target) {
  const FrozenDescription& d = network.description;
  if (frozen_form(in_format(d.network, d.format), d.format) != FrozenForm::kRescaled) {
    return invalid_input("networks of 8 bits can be exported, and this one computes in " +
                         to_string(d.format));
  }
  MANTISSA_ASSIGN(onnx::ExportedModel result, onnx::export_network(exported(network), target));
  const auto text = [](const nlohmann::json& json) {
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  result.model.metadata = {{"mantissa.class_names", text(d.class_names)},
                           {"mantissa.data", d.data},
                           {"mantissa.format", to_string(d.format)},
                           {"mantissa.network", d.network.name},
                           {"mantissa.weights_sha256", d.weights_sha256}};
  return result;
}

}  // namespace mantissa
