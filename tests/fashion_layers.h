// Parts of small networks for pictures of Fashion-MNIST's size.
#pragma once

#include <utility>

#include "models/layers.h"
#include "tests/harness.h"

namespace mantissa::testing {

inline const ModelOptions& fashion_options() {
  static const ModelOptions options{.channel_means = {73}};
  return options;
}

inline Graph finished(Layers& net) {
  auto graph = net.classify();
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return std::move(*graph);
}

}  // namespace mantissa::testing
