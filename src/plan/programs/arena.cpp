// Offsets of buffers in the arena: one after the other, each at the lowest gap that fits its
// lifetime, in the best of several orders.
#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/checked.h"
#include "plan/programs/program.h"

namespace mantissa {
namespace {

constexpr int64_t kAlignment = 64;

struct Block {
  int first, last;  // instructions, of its life
  int64_t bytes, offset;
};

int64_t end_of(const Block& block) { return round_up(block.offset + block.bytes, kAlignment); }

// One after the other in memory and without a branch on lifetimes: most of the time of packing is
// spent here.
int64_t lowest_gap(const std::vector<Block>& placed, const Block& block) {
  int64_t offset = 0;
  for (const Block& other : placed) {  // sorted by offset
    const bool alive_together = (block.first <= other.last) & (other.first <= block.last);
    if (alive_together & (offset + block.bytes <= other.offset)) break;
    offset = alive_together ? std::max(offset, end_of(other)) : offset;
  }
  return offset;
}

// Places the blocks one after the other; returns the arena's size.
int64_t place(std::vector<Block>& blocks, const std::vector<int>& order) {
  std::vector<Block> placed;
  placed.reserve(order.size());
  int64_t arena_bytes = 0;
  for (const int index : order) {
    Block& block = blocks[index];
    block.offset = lowest_gap(placed, block);
    arena_bytes = std::max(arena_bytes, end_of(block));
    const auto position =
        std::upper_bound(placed.begin(), placed.end(), block,
                         [](const Block& a, const Block& b) { return a.offset < b.offset; });
    placed.insert(position, block);
  }
  return arena_bytes;
}

// The buffers to place first: the largest, those large for long, or those that live longest.
using Weight = __int128 (*)(const Buffer&);
__int128 size(const Buffer& b) { return b.bytes; }
__int128 duration(const Buffer& b) { return b.last - b.first + 1; }
__int128 area(const Buffer& b) { return size(b) * duration(b); }
__int128 large_and_long(const Buffer& b) { return size(b) * size(b) * duration(b); }

// The best of the placements that are tried.
class Packing {
 public:
  Packing(const std::vector<Buffer>& buffers, int64_t wanted_bytes)
      : wanted_bytes_(wanted_bytes), offsets_(buffers.size()) {
    for (const Buffer& b : buffers) blocks_.push_back({b.first, b.last, b.bytes, 0});
  }

  int64_t smallest() const { return smallest_; }
  const std::vector<int64_t>& offsets() const { return offsets_; }
  const std::vector<int>& best_order() const { return best_order_; }
  void want(int64_t bytes) { wanted_bytes_ = bytes; }

  // Tries the order. After each try, buffers that found no room below come first in the next.
  void improve(std::vector<int> order) {
    constexpr int kTries = 24;
    for (int i = 0; i < kTries && smallest_ > wanted_bytes_ && may_try(); ++i) {
      attempt(order);
      if (!bring_forward(order)) break;
    }
  }

 private:
  // A try compares all pairs of blocks. With several thousand blocks, more than any built-in
  // network has, there are fewer tries, so that planning takes seconds.
  bool may_try() {
    const auto blocks = static_cast<int64_t>(blocks_.size());
    pairs_left_ -= blocks * blocks / 2;
    return pairs_left_ > 0 || smallest_ == INT64_MAX;
  }

  void attempt(const std::vector<int>& order) {
    const int64_t arena_bytes = place(blocks_, order);
    if (arena_bytes >= smallest_) return;
    smallest_ = arena_bytes;
    best_order_ = order;
    for (size_t b = 0; b < blocks_.size(); ++b) offsets_[b] = blocks_[b].offset;
  }

  // Puts those first that found no room within the wanted size; false: they are first already.
  bool bring_forward(std::vector<int>& order) const {
    const auto is_above = [&](int index) {
      return blocks_[index].offset + blocks_[index].bytes > wanted_bytes_;
    };
    if (std::is_partitioned(order.begin(), order.end(), is_above)) return false;
    std::stable_partition(order.begin(), order.end(), is_above);
    return true;
  }

  std::vector<Block> blocks_;
  int64_t wanted_bytes_;
  int64_t smallest_ = INT64_MAX;
  int64_t pairs_left_ = int64_t{1} << 30;
  std::vector<int> best_order_;
  std::vector<int64_t> offsets_;
};

// Orders of indices; `fullest`: the instruction at which most bytes are alive.
std::vector<std::vector<int>> orders_to_try(const std::vector<Buffer>& buffers, int64_t fullest) {
  std::vector<std::vector<int>> orders;
  for (const Weight weight : {size, large_and_long, area, duration}) {
    std::vector<int>& order = orders.emplace_back(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return weight(buffers[a]) > weight(buffers[b]); });
  }
  // At the moment when the arena is fullest there is no room for gaps.
  for (size_t i = 0, plain = orders.size(); i < plain; ++i) {
    std::vector<int> order = orders[i];
    std::stable_partition(order.begin(), order.end(), [&](int index) {
      return buffers[index].first <= fullest && buffers[index].last >= fullest;
    });
    orders.push_back(std::move(order));
  }
  return orders;
}

}  // namespace

int64_t pack_arena(std::vector<Buffer>& buffers, int64_t limit_bytes) {
  constexpr int64_t kGoodEnough = 100;  // a gap of one part in this many
  constexpr int64_t kSmall = 300;       // one part in this many of all alive together
  const std::vector<int64_t> live = live_bytes(buffers);
  const auto fullest = std::max_element(live.begin(), live.end()) - live.begin();
  const int64_t most_live = live[fullest];
  const std::vector<std::vector<int>> orders = orders_to_try(buffers, fullest);
  Packing packing(buffers, most_live + most_live / kGoodEnough);
  for (const std::vector<int>& order : orders) packing.improve(order);
  if (packing.smallest() > limit_bytes && most_live <= limit_bytes) {
    // The large ones by themselves, which is fast; the others find room between them.
    const auto is_small = [&](int index) { return buffers[index].bytes <= most_live / kSmall; };
    Packing large(buffers, limit_bytes);
    for (std::vector<int> order : orders) {
      order.erase(std::remove_if(order.begin(), order.end(), is_small), order.end());
      large.improve(std::move(order));
    }
    std::vector<int> order = large.best_order();
    std::copy_if(orders[0].begin(), orders[0].end(), std::back_inserter(order), is_small);
    packing.want(limit_bytes);
    packing.improve(std::move(order));
  }
  for (size_t b = 0; b < buffers.size(); ++b) buffers[b].offset = packing.offsets()[b];
  return packing.smallest();
}

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

int64_t largest_live_set(const std::vector<Buffer>& buffers) {
  const std::vector<int64_t> live = live_bytes(buffers);
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

}  // namespace mantissa
