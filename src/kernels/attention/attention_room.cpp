#include "kernels/attention/attention_room.h"

#include <algorithm>

#include "kernels/attention/attention.h"

namespace mantissa::kernels {

int64_t attention_room_bytes(int64_t queries, int64_t keys, int64_t channels, bool is_backward,
                             bool is_wide) {
  return std::max({ref_attention_room_bytes(keys, channels, is_backward),
                   RowRoom(nullptr, keys, channels, is_backward).bytes,
                   BlockRoom(nullptr, queries, keys, channels, is_backward, is_wide).bytes});
}

}  // namespace mantissa::kernels
