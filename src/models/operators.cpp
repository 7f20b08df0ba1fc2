#include "models/operators.h"

#include <algorithm>

#include "ops/ops.h"

namespace mantissa {
namespace {

constexpr const Op* kOperators[] = {
#define MANTISSA_OP(symbol) &ops::symbol,
#define MANTISSA_INNER_OP(symbol)
#include "ops/ops.inc"
#undef MANTISSA_OP
};

}  // namespace

std::span<const Op* const> operators() { return kOperators; }

const Op* find_operator(std::string_view name) {
  const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                   [&](const Op* op) { return name == op->name; });
  return found == std::end(kOperators) ? nullptr : *found;
}

}  // namespace mantissa
