// A frozen network in the tie-free form as a TensorFlow Lite model whose runtimes all compute its
// bits (docs/tflite.md).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "tflite/model.h"

namespace mantissa::tflite {

// A frozen network of FrozenForm::kTieFree.
struct ExportedNetwork {
  const Graph* graph = nullptr;
  std::vector<std::span<const std::byte>> parameters;  // as in the graph
  // By value.
  std::vector<int> canonical;  // whose data it is (plan/passes/resolved_values.h)
  std::vector<int> exponents;
  std::vector<int> limits;  // the largest mantissa of a value that a ReLU clips
  // By node.
  std::vector<bool> applies_relu;
};

// The model: input `pixels`, uint8 [1, H, W, C]; output `logits`, int8 [1, classes], the mantissas
// of predict --raw. An error names the node whose operator or numbers would not be the same
// everywhere.
Result<ModelData> export_network(const ExportedNetwork& network);

}  // namespace mantissa::tflite
