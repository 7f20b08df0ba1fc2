// Losses whose nodes and targets have names of their own.
#pragma once

#include <string>

#include "graph/graph.h"
#include "ops/loss.h"

namespace mantissa::ops {

// Adds an input of labels or targets called `targets`, and the loss called `name` between the value
// and this input. Their shapes and elements: with_loss.
void add_loss(GraphBuilder& builder, int value, const LossOptions& options,
              const std::string& targets, const std::string& name);

}  // namespace mantissa::ops
