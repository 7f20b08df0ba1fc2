// Arrays of the public interface as examples of a network.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "data/batches/examples.h"
#include "graph/graph.h"
#include "mantissa/training.h"

namespace mantissa {

// The network's inputs among the arrays, converted if the network takes other elements. Owns
// the converted ones, borrows the others.
struct BoundArrays {
  int64_t count = 0;
  std::vector<TensorSpec> specs;
  std::vector<const void*> data;
  std::vector<std::vector<std::byte>> converted;

  // Binds new arrays. Allocates nothing if the same arrays came before, or if none is converted.
  // Inputs that only losses read may be missing unless `needs_labels`. An error names the input.
  Status bind(const Graph& network, const ArraySet& arrays, bool needs_labels);

  Batch batch() const {
    return {.count = count, .specs = specs, .tensors = data, .examples = {}, .lengths = {}};
  }
  Examples examples() const;
};

// The tensors of a set, which outlives the result. Its labels become int32, as networks take them.
ArraySet arrays_of(ExampleSet& set);

}  // namespace mantissa
