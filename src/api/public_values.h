// The public interface's values, as the library has them.
#pragma once

#include "api/outcome.h"
#include "base/result.h"
#include "graph/graph.h"
#include "mantissa/network.h"
#include "mantissa/outcome.h"

namespace mantissa {

struct Network::Data {
  Graph graph;
};

inline Network network_of_graph(Graph graph) {
  return Network(std::make_shared<const Network::Data>(Network::Data{std::move(graph)}));
}

// An error for more dimensions than shapes have.
Result<Shape> shape_of(const Dims& dims);

// Weights of targets of 1, from 0 to 31, as whole numbers of 2^-10.
Result<WholeList> positive_weights_of(const std::vector<double>& weights);

}  // namespace mantissa
