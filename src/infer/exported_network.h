// A frozen network as onnx/export takes it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/tables/table_schema.h"
#include "graph/graph.h"
#include "infer/frozen_network.h"
#include "numerics/format.h"
#include "onnx/export/exporter.h"
#include "runtime/state.h"

namespace mantissa {

// A view: the network's numbers stay where they are, in its state.
onnx::ExportedNetwork exported_view(const Graph& graph, const State& state, const Format& format);

// What a file does with each number of a row: columns of numbers are standardised, the categories
// of others are 0 or 1 as they are. By input; empty: the network reads no rows.
std::map<std::string, std::vector<onnx::InputColumn>> input_columns(
    const std::optional<TableSchema>& table);

// An entry of a file's metadata: to_json(TableSchema).
inline constexpr const char* kColumns = "mantissa.columns";

// The names of the classes as JSON; of several outputs a list for each, by its name.
std::string class_names_text(const FrozenDescription& d);

}  // namespace mantissa
