#include "data/split.h"

#include <algorithm>
#include <new>
#include <vector>

#include "base/sizes.h"
#include "data/epoch_order.h"

namespace mantissa {
namespace {

// An epoch that training never reaches.
constexpr uint32_t kSplitEpoch = UINT32_MAX - 1;

void move_example(const ImageSet& from, int64_t source, ImageSet& to, int64_t place) {
  const int64_t bytes = from.example_bytes();
  std::copy_n(from.pixels.begin() + source * bytes, bytes, to.pixels.begin() + place * bytes);
  to.labels[static_cast<size_t>(place)] = from.labels[static_cast<size_t>(source)];
}

}  // namespace

Result<ImageSet> split_off(ImageSet& images, uint64_t seed, int64_t count) {
  ImageSet split{.count = count,
                 .height = images.height,
                 .width = images.width,
                 .channels = images.channels,
                 .pixels = {},
                 .labels = {}};
  try {
    std::vector<bool> taken(static_cast<size_t>(images.count));
    {
      const std::vector<uint32_t> order = epoch_order(seed, kSplitEpoch, images.count);
      for (auto last = order.end() - count; last != order.end(); ++last) taken[*last] = true;
    }
    split.pixels.resize(static_cast<size_t>(count * images.example_bytes()));
    split.labels.resize(static_cast<size_t>(count));
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
    images.pixels.resize(static_cast<size_t>(kept * images.example_bytes()));
    images.labels.resize(static_cast<size_t>(kept));
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
