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

// The best of the placements that are tried.
class Packing {
 public:
  Packing(std::vector<Buffer>& buffers, int64_t live_bytes)
      : buffers_(buffers), live_bytes_(live_bytes), offsets_(buffers.size()) {}

  // Tries the order, and after each try that what found no room below comes first in the next.
  void improve(std::vector<int> order) {
    constexpr int kTries = 24;
    constexpr int64_t kGoodEnough = 100;  // a gap of one in so many
    const int64_t wanted = live_bytes_ + live_bytes_ / kGoodEnough;
    for (int i = 0; i < kTries && smallest_ > wanted; ++i) {
      attempt(order);
      const auto is_above = [&](int index) {
        return buffers_[index].offset + buffers_[index].bytes > wanted;
      };
      if (std::is_partitioned(order.begin(), order.end(), is_above)) break;
      std::stable_partition(order.begin(), order.end(), is_above);
    }
  }

  // Writes the best offsets; returns the arena's size.
  int64_t finish() {
    for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].offset = offsets_[i];
    return smallest_;
  }

 private:
  void attempt(const std::vector<int>& order) {
    const int64_t arena_bytes = place(buffers_, order);
    if (arena_bytes >= smallest_) return;
    smallest_ = arena_bytes;
    for (size_t b = 0; b < buffers_.size(); ++b) offsets_[b] = buffers_[b].offset;
  }

  std::vector<Buffer>& buffers_;
  int64_t live_bytes_;
  int64_t smallest_ = INT64_MAX;
  std::vector<int64_t> offsets_;
};

}  // namespace

int64_t pack_arena(std::vector<Buffer>& buffers) {
  const std::vector<int64_t> live = live_bytes(buffers);
  const auto fullest = std::max_element(live.begin(), live.end()) - live.begin();
  Packing packing(buffers, live[fullest]);
  std::vector<std::vector<int>> orders;
  for (const Weight weight : {size, large_and_long, area, duration}) {
    std::vector<int>& order = orders.emplace_back(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return weight(buffers[a]) > weight(buffers[b]); });
  }
  // Where the arena is at its fullest there is no room for gaps.
  for (size_t i = 0, plain = orders.size(); i < plain; ++i) {
    std::vector<int> order = orders[i];
    std::stable_partition(order.begin(), order.end(), [&](int index) {
      return buffers[index].first <= fullest && buffers[index].last >= fullest;
    });
    orders.push_back(std::move(order));
  }
  for (std::vector<int>& order : orders) packing.improve(std::move(order));
  return packing.finish();
}

int64_t largest_live_set(const std::vector<Buffer>& buffers) {
  const std::vector<int64_t> live = live_bytes(buffers);
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

}  // namespace mantissa
