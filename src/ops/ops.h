// The operators, by name. Each is a row in a file of its own; ops.inc lists them.
#pragma once

#include <span>
#include <string_view>

#include "graph/op.h"

namespace mantissa::ops {

#define MANTISSA_OP(symbol) extern const Op symbol;
#include "ops/ops.inc"
#undef MANTISSA_OP

// All rows.
std::span<const Op* const> all();

// The row with this name, or null.
const Op* find(std::string_view name);

}  // namespace mantissa::ops
