#include "run/division.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "formats/json_text.h"
#include "pipeline/schedule.h"

namespace mantissa {
namespace {

constexpr int64_t kMostDivisionBytes = 1 << 20;

Result<std::vector<std::string>> names_of(const nlohmann::json& list) {
  std::vector<std::string> names;
  for (const auto& item : list) {
    if (item.is_string()) names.push_back(item.get<std::string>());
  }
  if (!list.is_array() || names.empty() || names.size() != list.size()) {
    return invalid_input(
        "is no list of the first layer of each stage, such as [\"stem\", \"stage2.0.conv1\"]");
  }
  if (std::ssize(names) > pipeline::kMostStages) {
    return invalid_input("has " + std::to_string(names.size()) + " stages; at most " +
                         std::to_string(pipeline::kMostStages) + " are possible");
  }
  return names;
}

std::string stage_name(size_t s) { return "stage " + std::to_string(s + 1); }

// The layer that begins with the node of that name.
Result<int> find_layer(const Graph& graph, const StageLayers& layers, const std::string& name,
                       size_t s) {
  const auto node = std::ranges::find(graph.nodes, name, &Node::name);
  if (node == graph.nodes.end()) {
    return invalid_input("'" + name + "', which is to begin " + stage_name(s) +
                         ", is no layer of the network; mantissa plan --stages 2 --json lists "
                         "those that can");
  }
  const auto index = static_cast<int>(node - graph.nodes.begin());
  const auto behind = std::ranges::upper_bound(layers.first_node, index);
  const auto layer = static_cast<int>(behind - layers.first_node.begin()) - 1;
  if (layers.first_node[layer] == index) return layer;
  return invalid_input("'" + name + "' cannot begin " + stage_name(s) + ": it stays with '" +
                       layers.layers[layer].name + "' before it");
}

}  // namespace

Result<std::vector<std::string>> read_division(const std::filesystem::path& path) {
  MANTISSA_ASSIGN(const auto bytes, read_file(path, kMostDivisionBytes));
  const auto json =
      parse_json(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  if (!json.is_object() || json.size() != 1 || !json.contains("stages")) {
    return invalid_input(path.string() +
                         ": is not {\"stages\": [...]} with the first layer of each stage");
  }
  auto names = names_of(json["stages"]);
  if (!names.ok()) return invalid_input(path.string() + ": \"stages\" " + names.error().message);
  return names;
}

Result<std::vector<std::string>> parse_division(std::string_view list) {
  auto names = names_of(parse_json(list));
  if (!names.ok()) return invalid_input("'" + std::string(list) + "' " + names.error().message);
  return names;
}

std::string division_text(const std::vector<std::string>& first_layers) {
  return nlohmann::json(first_layers)
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<std::vector<int>> find_first_layers(const Graph& graph, const StageLayers& layers,
                                           const std::vector<std::string>& names) {
  std::vector<int> first;
  for (size_t s = 0; s < names.size(); ++s) {
    MANTISSA_ASSIGN(const int layer, find_layer(graph, layers, names[s], s));
    if (s == 0 && layer > 0) {
      return invalid_input("stage 1 begins with '" + names[s] + "': '" + layers.layers[0].name +
                           "' before it has no stage");
    }
    if (s > 0 && layer == first.back()) {
      return invalid_input(stage_name(s - 1) + " has no layer: " + stage_name(s) +
                           " begins with '" + names[s] + "', too");
    }
    if (s > 0 && layer < first.back()) {
      return invalid_input("'" + names[s] + "' of " + stage_name(s) + " comes before '" +
                           names[s - 1] + "' of " + stage_name(s - 1) + " in the network");
    }
    first.push_back(layer);
  }
  return first;
}

}  // namespace mantissa
