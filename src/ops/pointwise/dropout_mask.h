// The mask of dropout: a function of its key, not kept.
#pragma once

#include <algorithm>
#include <array>

#include "graph/op.h"
#include "kernels/kernel_table.h"
#include "ops/attributes.h"

namespace mantissa::ops {

constexpr int64_t kDropoutOne = 65536;  // probability 1

inline int64_t dropped_of(const OpContext& c) { return c.attributes<DropoutAttributes>().dropped; }

// Calls use(keep, at, count) on pieces of the mask that cover [begin, end).
template <typename Use>
void for_each_mask(const OpContext& c, int64_t begin, int64_t end, const Use& use) {
  const kernels::RandomKey key{
      .stream = RandomStream::kDropout,
      .seed = c.step.scalars->seed,
      .micro_batch =
          static_cast<uint32_t>(c.step.scalars->step * c.step.micro_batches + c.step.micro_batch),
      .tensor = static_cast<uint32_t>(c.node.index)};
  std::array<int8_t, 32 * kernels::kRandomGroup> keep;
  const auto dropped = static_cast<uint32_t>(dropped_of(c));
  for (int64_t at = begin; at < end; at += int64_t{keep.size()}) {
    const int64_t stop = std::min(end, at + int64_t{keep.size()});
    c.kernel.table->rounding->keep_mask(key, dropped, at, stop, keep.data());
    use(keep.data(), at, stop - at);
  }
}

}  // namespace mantissa::ops
