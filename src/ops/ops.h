// The operators. Each is a row in a file of its own; ops.inc lists them.
#pragma once

#include "graph/op.h"

namespace mantissa::ops {

#define MANTISSA_OP(symbol) extern const Op symbol;
#include "ops/ops.inc"
#undef MANTISSA_OP

}  // namespace mantissa::ops
