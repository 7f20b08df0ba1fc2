#include "models/json/operators.h"

#include <algorithm>
#include <mutex>

#include "ops/ops.h"

namespace mantissa {
namespace {

constexpr const Op* kOperators[] = {
#define MANTISSA_OP(symbol) &ops::symbol,
#define MANTISSA_INNER_OP(symbol)
#include "ops/ops.inc"
#undef MANTISSA_OP
};

struct Added {
  std::mutex mutex;
  std::vector<std::shared_ptr<const Op>> rows;
};

// Never destroyed: graphs of static objects may outlive anything.
Added& added() {
  static Added* const all = new Added;
  return *all;
}

}  // namespace

std::vector<const Op*> operators() {
  std::vector<const Op*> all(std::begin(kOperators), std::end(kOperators));
  const std::lock_guard lock(added().mutex);
  for (const auto& row : added().rows) all.push_back(row.get());
  return all;
}

const Op* find_operator(std::string_view name) {
  const std::vector<const Op*> all = operators();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Op* op) { return name == op->name; });
  return found == all.end() ? nullptr : *found;
}

void add_operator(std::shared_ptr<const Op> op) {
  const std::lock_guard lock(added().mutex);
  added().rows.push_back(std::move(op));
}

}  // namespace mantissa
