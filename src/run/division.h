// Divisions of a network among stages by hand: the first layer of each stage, by name
// (docs/pipelines.md).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/stages/stage_layers.h"

namespace mantissa {

// The layers in a file {"stages": ["stem", "stage2.0.conv1"]}. Errors name the file.
Result<std::vector<std::string>> read_division(const std::filesystem::path& path);

// The layers in a text ["stem", "stage2.0.conv1"], and such a text.
Result<std::vector<std::string>> parse_division(std::string_view list);
std::string division_text(const std::vector<std::string>& first_layers);

// The first layers as numbers. Errors name the layer: there is no such name, it must stay with
// another, it comes before the first layer of the stage before, or layers before it have no stage.
Result<std::vector<int>> find_first_layers(const Graph& graph, const StageLayers& layers,
                                           const std::vector<std::string>& names);

}  // namespace mantissa
