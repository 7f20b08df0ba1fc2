// The normative loops of attention, compiled for any CPU.
#include <algorithm>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_room.h"
#include "numerics/exponential.h"
#include "numerics/rounding.h"

namespace mantissa::kernels {
namespace {
#include "kernels/attention/row_loops.h"
}  // namespace

const AttentionKernels kAttentionReference = {"attention_reference", kNeedsNothing, forward_by_rows,
                                              backward_by_rows};

bool AttentionHead::has_narrow_scores() const {
  return q_bits - 1 + k_bits - 1 + bit_length(static_cast<uint64_t>(channels)) <= 30;
}

int64_t attention_room_bytes(int64_t queries, int64_t keys, int64_t channels, bool is_backward) {
  return std::max(RowRoom(nullptr, keys, channels, is_backward).bytes,
                  BlockRoom(nullptr, queries, keys, channels, is_backward).bytes);
}

}  // namespace mantissa::kernels
