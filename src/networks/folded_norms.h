// Convolutions whose batch norms were probably folded away (docs/onnx.md, 0072).
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace mantissa {

// The nodes of convolutions that have a bias, make more than one pixel and have no batch norm after
// them. The one that makes the output is not among them.
std::vector<int> convolutions_without_norm(const Graph& network);

// A line for people if the network has several of them and no batch norm: an exporter may have
// folded those away. Else empty.
std::string folded_norms_text(const Graph& network);

}  // namespace mantissa
