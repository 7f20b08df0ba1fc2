// Networks as JSON, which people read and edit, and which files of networks hold. The format is in
// docs/networks.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace mantissa {

constexpr int64_t kMostNetworkBytes = int64_t{4} << 20;
constexpr int64_t kMostNetworkNodes = 5000;
constexpr size_t kLongestNetworkName = 100;  // of a network or a node

// The text of a network, a line for each node. It is the network's identity: equal graphs have
// equal texts, and parse_network gives the graph back, its values, nodes and parameters in their
// order. So the text of today's graphs must never change.
std::string to_json(const Graph& graph);

// A network with the first node of each pipeline stage, if its nodes name their stages.
struct NetworkText {
  Graph graph;
  std::vector<std::string> stages;
};

// The network in a text. An error is one line that begins with "line N: " and says the possible
// values. Errors include everything that GraphBuilder refuses, and operators that only formats and
// freezing insert.
Result<Graph> parse_network(std::string_view text);

Result<NetworkText> parse_network_text(std::string_view text);

// The network of a file. Errors name the file.
Result<NetworkText> read_network_text(const std::filesystem::path& path);
Result<Graph> read_network(const std::filesystem::path& path);

// The SHA-256 of its text.
std::string network_sha256(const Graph& graph);

}  // namespace mantissa
