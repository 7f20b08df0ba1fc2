#include "networks/adapters.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/real_text.h"
#include "base/wildcard.h"
#include "graph/rebuild.h"
#include "graph/sharing.h"
#include "ops/attributes.h"
#include "ops/ops.h"

namespace mantissa {
namespace {

constexpr const char *kA = ".lora_a", *kScale = ".lora_scale", *kB = ".lora_b", *kSum = ".lora_sum";
// Bits of the layer's result, A x and B (A x). They are rounded to the format's bits once, at the
// end.
constexpr int64_t kSumBits = 16;

bool is_part(const std::string& node) {
  return node.ends_with(kA) || node.ends_with(kB);
}

const Node* find_node(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.nodes, name, &Node::name);
  return found == graph.nodes.end() ? nullptr : &*found;
}

// Whether a layer can have an adapter.
bool takes_adapter(const Graph& graph, const std::vector<std::vector<int>>& readers, int n) {
  const Node& node = graph.nodes[n];
  if (node.op != &ops::kLinear || is_part(node.name) || shares_parameters(graph, n)) return false;
  if (node.attributes.as<ops::LayerAttributes>().weight_bits > 0) return false;
  const int output = node.outputs[0];
  return !graph.is_output(output) &&
         std::ranges::none_of(readers[output], [&](int reader) { return graph.is_loss(reader); });
}

// The pattern fits the name, or its end behind a point.
bool fits_layer(std::string_view pattern, std::string_view name) {
  for (;;) {
    if (matches_wildcard(pattern, name)) return true;
    const size_t point = name.find('.');
    if (point == std::string_view::npos) return false;
    name.remove_prefix(point + 1);
  }
}

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 12;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, names.size()); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

// By node: whether it gets an adapter.
Result<std::vector<bool>> chosen_layers(const Graph& graph, const std::string& on) {
  const std::vector<std::vector<int>> readers = readers_of(graph);
  std::vector<bool> possible(graph.nodes.size()), chosen(graph.nodes.size());
  std::vector<std::string> names;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    possible[n] = takes_adapter(graph, readers, static_cast<int>(n));
    if (possible[n]) names.push_back(graph.nodes[n].name);
  }
  if (names.empty()) {
    return invalid_input("lora: " + graph.name +
                         " has no linear layer that can have adapters; layers of logits and those "
                         "that share weights cannot");
  }
  if (on.empty()) return possible;
  for (const std::string_view pattern : split_patterns(on)) {
    bool found = false;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      if (!possible[n] || !fits_layer(pattern, graph.nodes[n].name)) continue;
      chosen[n] = found = true;
    }
    if (found) continue;
    return invalid_input("lora-on: '" + std::string(pattern) + "' fits no layer of " + graph.name +
                         " that can have adapters; these can: " + listed(names));
  }
  return chosen;
}

Attributes with_least_bits(const Attributes& attributes, int64_t bits) {
  std::vector<Attributes::Item> items = attributes.items();
  for (Attributes::Item& item : items) {
    if (item.first == "least_bits") item.second = bits;
  }
  return Attributes(std::move(items));
}

int64_t least_bits_of(const Node& node) {
  return node.attributes.as<ops::LayerAttributes>().least_bits;
}

// The network's own adapters, if they are those of the choice.
Result<Graph> keep_adapters(const Graph& network, const std::vector<Adapter>& adapters,
                            const LoraChoice& choice) {
  const LoraChoice has = lora_of(network);
  const auto alike = [&](const Adapter& adapter) {
    return adapter.rank == choice.rank && adapter.factor == choice.factor();
  };
  bool same = std::ranges::all_of(adapters, alike);
  if (same && !choice.on.empty()) {
    std::vector<std::string> wanted;
    for (const Node& node : network.nodes) {
      if (node.op != &ops::kLinear || is_part(node.name)) continue;
      const auto patterns = split_patterns(choice.on);
      const bool fits = std::ranges::any_of(
          patterns, [&](std::string_view pattern) { return fits_layer(pattern, node.name); });
      if (fits) wanted.push_back(node.name);
    }
    same = std::ranges::equal(wanted, adapters, {}, {}, &Adapter::layer);
  }
  if (same) return network;
  return invalid_input("lora: " + network.name + " has adapters of rank " +
                       std::to_string(has.rank) + " with alpha " + real_text(has.alpha) +
                       " already, on " + std::to_string(adapters.size()) +
                       " layers: leave --lora out to go on with them, or export the network "
                       "merged with them and import it");
}

}  // namespace

double LoraChoice::factor() const {
  return alpha == 0 ? 2 : alpha / static_cast<double>(rank);
}

Result<Graph> with_adapters(const Graph& network, const LoraChoice& choice) {
  if (const auto adapters = adapters_of(network); !adapters.empty()) {
    return keep_adapters(network, adapters, choice);
  }
  MANTISSA_ASSIGN(const std::vector<bool> chosen, chosen_layers(network, choice.on));
  std::vector<int> inputs(network.nodes.size(), -1);  // of the chosen nodes, in the new network
  GraphChanges changes;
  changes.before = [&](GraphBuilder&, int n, std::vector<int>& reads, Attributes& attributes) {
    if (!chosen[static_cast<size_t>(n)]) return;
    inputs[static_cast<size_t>(n)] = reads[0];
    attributes = with_least_bits(attributes, kSumBits);
  };
  changes.behind = [&](GraphBuilder& builder, int n, int output) {
    if (!chosen[static_cast<size_t>(n)]) return output;
    const Node& node = network.nodes[static_cast<size_t>(n)];
    const int inner = builder.add(ops::kLinear, node.name + kA, {inputs[static_cast<size_t>(n)]},
                                  {{"channels", choice.rank},
                                   {"initialiser", "fan-in"},
                                   {"bias", 0},
                                   {"least_bits", kSumBits}});
    const int scaled =
        builder.add(ops::kScale, node.name + kScale, {inner}, {{"factor", choice.factor()}});
    const int outer = builder.add(ops::kLinear, node.name + kB, {scaled},
                                  {{"channels", builder.shape(output).last()},
                                   {"initialiser", "zero"},
                                   {"bias", 0},
                                   {"least_bits", kSumBits}});
    return builder.add(ops::kAdd, node.name + kSum, {output, outer},
                       {{"least_bits", least_bits_of(node)}});
  };
  return rebuilt(network, changes);
}

std::vector<Adapter> adapters_of(const Graph& network) {
  std::vector<Adapter> adapters;
  for (const Node& node : network.nodes) {
    if (!node.name.ends_with(kB) || node.op != &ops::kLinear) continue;
    const std::string layer = node.name.substr(0, node.name.size() - std::string_view(kB).size());
    const Node *a = find_node(network, layer + kA), *scale = find_node(network, layer + kScale),
               *base = find_node(network, layer);
    if (a == nullptr || scale == nullptr || base == nullptr) continue;
    if (a->op != &ops::kLinear || scale->op != &ops::kScale || base->op != &ops::kLinear) continue;
    adapters.push_back({.layer = layer,
                        .rank = a->attributes.as<ops::LayerAttributes>().channels,
                        .factor = scale->attributes.as<ops::ScaleAttributes>().factor,
                        .a = a->parameters[0],
                        .b = node.parameters[0],
                        .weights = base->parameters[0]});
  }
  return adapters;
}

LoraChoice lora_of(const Graph& network) {
  const std::vector<Adapter> adapters = adapters_of(network);
  if (adapters.empty()) return {};
  const Adapter& first = adapters[0];
  return {.rank = first.rank, .alpha = first.factor * static_cast<double>(first.rank)};
}

Status leave_base_untrained(std::span<const NamedParameter> base, const std::string& also,
                            Graph& graph) {
  const auto has_start = [&](const Parameter& parameter) {
    return std::ranges::any_of(base, [&](const NamedParameter& from) {
      return from.name == parameter.name && from.shape == parameter.shape;
    });
  };
  const std::vector<std::string_view> patterns =
      also.empty() ? std::vector<std::string_view>() : split_patterns(also);
  std::vector<bool> used(patterns.size());
  std::vector<bool> is_adapter(graph.parameters.size());
  for (const Adapter& adapter : adapters_of(graph)) {
    is_adapter[static_cast<size_t>(adapter.a)] = is_adapter[static_cast<size_t>(adapter.b)] = true;
  }
  for (size_t i = 0; i < graph.parameters.size(); ++i) {
    Parameter& parameter = graph.parameters[i];
    if (is_adapter[i] || parameter.storage == Storage::kReal) continue;
    bool named = false;
    for (size_t p = 0; p < patterns.size(); ++p) {
      if (!matches_wildcard(patterns[p], parameter.name)) continue;
      named = used[p] = true;
    }
    if (!named && has_start(parameter)) parameter.trained = false;
  }
  const auto unused = std::ranges::find(used, false);
  if (unused == used.end()) return {};
  const auto at = static_cast<size_t>(unused - used.begin());
  return invalid_input("lora-also: '" + std::string(patterns[at]) + "' fits no parameter of " +
                       graph.name + " besides adapters");
}

}  // namespace mantissa
