// Networks that give a vector for each token of a text.
#pragma once

#include <cstdint>

#include "data/tokenizers/wordpiece.h"
#include "graph/graph.h"
#include "numerics/format.h"
#include "runtime/state.h"

namespace mantissa {

struct Encoder {
  Graph graph;  // in its format, frozen: inputs as in models/bert.h, output [sequence, channels]
  Format format;
  State state;
  WordPiece tokenizer;

  int64_t sequence() const { return graph.values[graph.outputs[0]].shape[0]; }
  int64_t channels() const { return graph.values[graph.outputs[0]].shape[1]; }
};

}  // namespace mantissa
