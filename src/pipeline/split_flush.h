// The order of kFlush with grad_weights apart.
#pragma once

#include <vector>

#include "pipeline/schedule.h"

namespace mantissa::pipeline {

// Each stage's cells. A stage prefers grad_input, for which others wait; then forward passes while
// fewer than `window` micro-batches are in flight; then grad_weights. It begins the next step after
// its own update, while others still finish theirs. The order assumes that all pieces of work take
// equal times, and is the same in every step.
std::vector<std::vector<Cell>> split_flush(const Options& options, int window);

}  // namespace mantissa::pipeline
