// Every operator of the table.
#pragma once

#include "ops/ops.h"

namespace mantissa::testing {

#define MANTISSA_OP(symbol) &ops::symbol,
inline constexpr const Op* kAllOperators[] = {
#include "ops/ops.inc"
};
#undef MANTISSA_OP

}  // namespace mantissa::testing
