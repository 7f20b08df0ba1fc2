#include "data/batches/split.h"

#include <algorithm>
#include <new>
#include <vector>

#include "base/sizes.h"
#include "data/batches/epoch_order.h"

namespace mantissa {
namespace {

// An epoch that training never reaches.
constexpr uint32_t kSplitEpoch = UINT32_MAX - 1;

// Moves one example's part of an array that has `size` elements of each.
template <typename T>
void move_part(const std::vector<T>& from, int64_t source, int64_t size, std::vector<T>& to,
               int64_t place) {
  std::copy_n(from.begin() + source * size, size, to.begin() + place * size);
}

// The arrays of a set that are not empty, each with its elements of an example.
template <typename Visit>
void for_each_array(ImageSet& a, ImageSet& b, const Visit& visit) {
  visit(a.pixels, b.pixels, a.height * a.width * a.channels);
  visit(a.numbers, b.numbers, a.features);
  visit(a.labels, b.labels, a.labels.empty() ? 0 : 1);
  visit(a.targets, b.targets, a.targets.empty() ? 0 : 1);
  visit(a.weights, b.weights, a.weights.empty() ? 0 : 1);
}

void move_example(ImageSet& from, int64_t source, ImageSet& to, int64_t place) {
  for_each_array(from, to, [&](const auto& a, auto& b, int64_t size) {
    if (size > 0) move_part(a, source, size, b, place);
  });
}

}  // namespace

Result<ImageSet> split_off(ImageSet& images, uint64_t seed, int64_t count) {
  ImageSet split{.count = count,
                 .height = images.height,
                 .width = images.width,
                 .channels = images.channels,
                 .pixels = {},
                 .labels = {},
                 .features = images.features,
                 .padding = images.padding};
  try {
    std::vector<bool> taken(static_cast<size_t>(images.count));
    {
      const std::vector<uint32_t> order = epoch_order(seed, kSplitEpoch, images.count);
      for (auto last = order.end() - count; last != order.end(); ++last) taken[*last] = true;
    }
    for_each_array(images, split, [&](const auto&, auto& part, int64_t size) {
      part.resize(static_cast<size_t>(count * size));
    });
    int64_t kept = 0, moved = 0;
    for (int64_t i = 0; i < images.count; ++i) {
      if (taken[static_cast<size_t>(i)]) {
        move_example(images, i, split, moved++);
      } else {
        if (kept != i) move_example(images, i, images, kept);
        ++kept;
      }
    }
    images.count = kept;
    for_each_array(images, images, [&](auto& whole, const auto&, int64_t size) {
      whole.resize(static_cast<size_t>(kept * size));
    });
  } catch (const std::bad_alloc&) {
    return out_of_memory(std::to_string(count) + " validation examples",
                         split_bytes(count, images.example_bytes()));
  }
  return split;
}

int64_t split_bytes(int64_t count, int64_t example_bytes) {
  return count * (example_bytes + int64_t{sizeof(Label)});
}

}  // namespace mantissa
