// Softmax cross-entropy of the logits of a linear layer, in slices of rows: the layer, the loss,
// its gradient, and the gradient of the layer's input for some rows, then for the next. Logits and
// their gradient are never there as a whole. Bits, counts and exponents are those of the layer and
// the loss one after the other, for any number of slices.
#pragma once

#include "graph/op.h"

namespace mantissa::ops {

// inputs: the layer's input, labels, perhaps weights of rows. output: the logits, without data.
// grad_inputs: of the logits, without data, and of the layer's input; none in programs without a
// backward pass. Parameters: the layer's; rows_at_once of the first is the size of a slice. The
// attributes of the node are the loss's, and those behind them the layer's.
extern const Op kSlicedCrossEntropy;

// Whether slices of rows leave what the whole leaves: for this layer, and for this loss.
bool takes_slices(const Node& layer, const Node& loss);

// The workspace: a slice's logits and their gradient, if that is computed, and the layer's own.
int64_t sliced_workspace_bytes(int64_t rows, int64_t classes, int gradient_bits, int64_t own_bytes);

}  // namespace mantissa::ops
