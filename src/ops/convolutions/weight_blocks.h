// Linear layers whose weights stay in the blocks of the file that they come from: the attribute
// weight_blocks (reference/elements/blocks.h). The state has the blocks and an exponent for each
// row. Mantissas of 8 bits are written into the workspace right before the products, which then are
// the products of weights with an exponent for each output channel.
#pragma once

#include "graph/op.h"
#include "kernels/common/statistics.h"

namespace mantissa::ops {

bool has_blocks(const OpShapes& s);
bool has_blocks(const OpContext& c);

// The memory of such a layer, where `plan` is that of weights of 8 bits. Logits of many weights,
// and the gradient of their input, are computed from a slice of the weights at a time.
OpMemory memory_of_blocks(const OpShapes& s, const PlanningContext& planning,
                          OpMemory (*plan)(const OpShapes&, const PlanningContext&));

// The forward pass, where `prepare` and `run` are those of weights of 8 bits.
Prepared prepare_forward_of_blocks(const OpContext& c, Prepared (*prepare)(const OpContext&));
void forward_of_blocks(const OpContext& c, void (*run)(const OpContext&));

// The mantissas of rows [first, first + rows) of the weights.
void expand_rows(const OpContext& c, int64_t first, int64_t rows, int8_t* to);

Prepared prepare_grad_input_of_blocks(const OpContext& c);
// Writes the gradient of the input, narrowed by a shift. Formats that count what is written do not
// take blocks (check_network.cpp).
kernels::WideStatistics write_grad_input_of_blocks(const OpContext& c, int shift);

}  // namespace mantissa::ops
