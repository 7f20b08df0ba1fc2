// Offsets of buffers in the arena: one after the other, each at the lowest gap that fits its
// lifetime, in the best of several orders.
#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "plan/program.h"

namespace mantissa {
namespace {

constexpr int64_t kAlignment = 64;

bool alive_together(const Buffer& a, const Buffer& b) {
  return a.first <= b.last && b.first <= a.last;
}

int64_t lowest_gap(const std::vector<Buffer>& buffers, std::vector<int>& placed,
                   const Buffer& buffer) {
  int64_t offset = 0;
  for (const int other : placed) {  // sorted by offset
    const Buffer& neighbour = buffers[other];
    if (!alive_together(buffer, neighbour)) continue;
    if (offset + buffer.bytes <= neighbour.offset) break;
    offset = std::max(offset, round_up(neighbour.offset + neighbour.bytes, kAlignment));
  }
  return offset;
}

// Places the buffers one after the other; returns the arena's size.
int64_t place(std::vector<Buffer>& buffers, const std::vector<int>& order) {
  std::vector<int> placed;
  int64_t arena_bytes = 0;
  for (const int index : order) {
    Buffer& buffer = buffers[index];
    buffer.offset = lowest_gap(buffers, placed, buffer);
    arena_bytes = std::max(arena_bytes, round_up(buffer.offset + buffer.bytes, kAlignment));
    const auto position = std::upper_bound(placed.begin(), placed.end(), index, [&](int a, int b) {
      return buffers[a].offset < buffers[b].offset;
    });
    placed.insert(position, index);
  }
  return arena_bytes;
}

// By instruction.
std::vector<int64_t> live_bytes(const std::vector<Buffer>& buffers) {
  int end = 0;
  for (const Buffer& buffer : buffers) end = std::max(end, buffer.last + 1);
  std::vector<int64_t> live(end + 1, 0);
  for (const Buffer& buffer : buffers) {
    live[buffer.first] += buffer.bytes;
    live[buffer.last + 1] -= buffer.bytes;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  return live;
}

// What is placed first: the largest, what is large for long, or the longest.
using Weight = __int128 (*)(const Buffer&);
__int128 size(const Buffer& b) { return b.bytes; }
__int128 duration(const Buffer& b) { return b.last - b.first + 1; }
__int128 area(const Buffer& b) { return size(b) * duration(b); }
__int128 large_and_long(const Buffer& b) { return size(b) * size(b) * duration(b); }

}  // namespace

int64_t pack_arena(std::vector<Buffer>& buffers) {
  constexpr int64_t kGoodEnough = 100;  // a gap of one in so many
  constexpr int kTries = 24;            // of each order
  const std::vector<int64_t> live = live_bytes(buffers);
  const auto fullest = std::max_element(live.begin(), live.end()) - live.begin();
  const int64_t wanted = live[fullest] + live[fullest] / kGoodEnough;
  std::vector<int64_t> offsets(buffers.size());
  int64_t smallest = INT64_MAX;
  std::vector<std::vector<int>> orders;
  for (const Weight weight : {size, large_and_long, area, duration}) {
    std::vector<int>& order = orders.emplace_back(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return weight(buffers[a]) > weight(buffers[b]); });
  }
  // Where the arena is at its fullest there is no room for gaps.
  for (size_t i = 0; i < 4; ++i) {
    std::vector<int> order = orders[i];
    std::stable_partition(order.begin(), order.end(), [&](int index) {
      const Buffer& buffer = buffers[index];
      return buffer.first <= fullest && buffer.last >= fullest;
    });
    orders.push_back(std::move(order));
  }
  for (std::vector<int>& order : orders) {
    for (int i = 0; i < kTries && smallest > wanted; ++i) {
      const int64_t arena_bytes = place(buffers, order);
      if (arena_bytes < smallest) {
        smallest = arena_bytes;
        for (size_t b = 0; b < buffers.size(); ++b) offsets[b] = buffers[b].offset;
      }
      // What found no room below comes first in the next try.
      const auto is_above = [&](int index) {
        return buffers[index].offset + buffers[index].bytes > wanted;
      };
      if (std::is_partitioned(order.begin(), order.end(), is_above)) break;
      std::stable_partition(order.begin(), order.end(), is_above);
    }
  }
  for (size_t i = 0; i < buffers.size(); ++i) buffers[i].offset = offsets[i];
  return smallest;
}

int64_t largest_live_set(const std::vector<Buffer>& buffers) {
  const std::vector<int64_t> live = live_bytes(buffers);
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

}  // namespace mantissa
