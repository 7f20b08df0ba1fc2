#include "infer/exported_network.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/batches/example_set.h"
#include "numerics/rounding.h"
#include "plan/passes/resolved_values.h"
#include "plan/programs/grids.h"

namespace mantissa {
namespace {

// Whether channels of a value have exponents that differ.
bool is_by_channel(const State& state, int value) {
  const int tensor = state.layout().channel_exponents[static_cast<size_t>(value)];
  if (tensor < 0) return false;
  const std::span<const std::byte> below = state.bytes(tensor);
  return std::any_of(below.begin(), below.end(), [](std::byte b) { return b != std::byte{0}; });
}

}  // namespace

onnx::ExportedNetwork exported_view(const Graph& graph, const State& state, const Format& format) {
  const StateLayout& layout = state.layout();
  const ResolvedValues resolved = resolve_values(graph);
  const Grids widths = grids(graph, format);
  onnx::ExportedNetwork result{.graph = &graph,
                               .parameters = {},
                               .exponents = {},
                               .limits = {},
                               .is_wide = resolved.is_wide,
                               .by_channel = {},
                               .has_row_exponents = format.has_row_exponents(),
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
  if (format.is_float()) return result;  // values have no exponents
  for (int value = 0; value < std::ssize(graph.values); ++value) {
    const int canonical = resolved.canonical[value], slot = layout.slots.of_value[canonical];
    result.exponents.push_back(slot < 0 ? 0 : state.data<int16_t>(layout.exponents)[slot]);
    result.limits.push_back(static_cast<int>(mantissa_limit(widths.values[canonical].bits)));
    result.by_channel.push_back(is_by_channel(state, canonical));
  }
  return result;
}

namespace {

std::vector<onnx::InputColumn> numbers_of(const std::vector<TableColumn>& columns) {
  std::vector<onnx::InputColumn> numbers;
  for (const TableColumn& column : columns) {
    const onnx::InputColumn one = column.is_number()
                                      ? onnx::InputColumn{column.mean, column.deviation}
                                      : onnx::InputColumn{};
    numbers.insert(numbers.end(), static_cast<size_t>(column.width()), one);
  }
  return numbers;
}

}  // namespace

std::map<std::string, std::vector<onnx::InputColumn>> input_columns(
    const std::optional<TableSchema>& table) {
  if (!table || table->is_shaped() || table->text) return {};
  if (!table->has_named_inputs()) return {{kNumberTensor, numbers_of(table->columns)}};
  std::map<std::string, std::vector<onnx::InputColumn>> columns;
  for (const ArrayInput& input : table->inputs) {
    const bool is_row = input.kind == ArrayKind::kNumbers && input.shape.rank == 1;
    if (is_row) columns[input.name] = numbers_of(input.columns);
  }
  return columns;
}

std::string class_names_text(const FrozenDescription& d) {
  nlohmann::json names = d.class_names;
  if (!d.options.outputs.empty()) {
    names = nlohmann::json::object();
    for (const Target& output : target_of(d).parts) names[output.output] = output.names;
  }
  return names.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace mantissa
