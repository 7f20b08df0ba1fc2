#include "ops/ops.h"

namespace mantissa::ops {
namespace {

constexpr const Op* kTable[] = {
#define MANTISSA_OP(symbol) &symbol,
#include "ops/ops.inc"
#undef MANTISSA_OP
};

}  // namespace

std::span<const Op* const> all() { return kTable; }

const Op* find(std::string_view name) {
  for (const Op* op : kTable) {
    if (name == op->name) return op;
  }
  return nullptr;
}

}  // namespace mantissa::ops
