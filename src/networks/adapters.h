// Adapters of low rank beside layers whose weights stay (LoRA, Hu et al. 2021): `train --lora`
// (docs/language.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "runtime/named_parameters.h"

namespace mantissa {

struct LoraChoice {
  int64_t rank = 0;       // 0: no adapters
  std::string on = {};    // patterns of layers; "": all linear ones that can have adapters
  double alpha = 0;       // 0: twice the rank
  std::string also = {};  // patterns of parameters that are trained besides

  double factor() const;  // alpha / rank
};

// One adapter: the layer's result W x gets factor * B (A x) added.
struct Adapter {
  std::string layer;  // "block1.query"
  int64_t rank = 0;
  double factor = 0;
  int a = -1, b = -1, weights = -1;  // parameters of the graph: A, B and W
};

// The network with adapters: nodes NAME.lora_a, NAME.lora_scale, NAME.lora_b and NAME.lora_sum
// beside each layer NAME. A starts like a layer's weights, B with zeros: the network computes the
// same. In formats of fewer bits, the layer's result has 16 bits up to the sum.
//
// Patterns fit a layer's name, or its end behind a point: "query" fits block1.query. Only linear
// layers can have adapters, not those that make an output or logits, or share their weights. A
// network that has adapters keeps them. Errors: a pattern that fits no such layer, adapters of
// another rank, factor, or on other layers.
Result<Graph> with_adapters(const Graph& network, const LoraChoice& choice);

std::vector<Adapter> adapters_of(const Graph& network);

// The choice that a network's adapters come from; without adapters its rank is 0.
LoraChoice lora_of(const Graph& network);

// Marks the parameters as not trained that are in `base`, by name and shape, but for adapters and
// those that fit `also`. An error: a pattern that fits no parameter.
Status leave_base_untrained(std::span<const NamedParameter> base, const std::string& also,
                            Graph& graph);

}  // namespace mantissa
