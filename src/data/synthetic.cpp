#include "data/synthetic.h"

#include "base/checked.h"
#include "base/random.h"

namespace mantissa {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;

// Separate streams of one purpose.
constexpr uint32_t kPixels = 0, kLabels = 1;

}  // namespace

Result<DatasetInfo> synthetic_info(int64_t height, int64_t width, int64_t channels, int64_t classes,
                                   int64_t count) {
  const auto bytes = checked_product({height, width, channels, count});
  if (height < 1 || width < 1 || channels < 1 || count < 1) {
    return invalid_input("synthetic pictures: height, width, channels and count are at least 1");
  }
  if (!bytes || *bytes > kMostBytes) {
    return invalid_input("synthetic pictures: more than 1 GiB of pixels in a batch");
  }
  if (classes < 1 || classes > kMaxClasses) {
    return invalid_input("synthetic pictures: from 1 to " + std::to_string(kMaxClasses) +
                         " classes");
  }
  return DatasetInfo{.name = kSyntheticData,
                     .height = height,
                     .width = width,
                     .channels = channels,
                     .classes = static_cast<int>(classes),
                     .train_count = count,
                     .test_count = count,
                     .class_names = {}};
}

ImageSet synthetic_images(const DatasetInfo& info, uint64_t seed) {
  ImageSet images{.count = info.train_count,
                  .height = info.height,
                  .width = info.width,
                  .channels = info.channels,
                  .pixels = {},
                  .labels = {}};
  images.pixels.resize(static_cast<size_t>(images.count * images.example_bytes()));
  images.labels.resize(static_cast<size_t>(images.count));
  uint64_t bits = 0;
  for (size_t i = 0; i < images.pixels.size(); ++i) {
    if (i % 8 == 0) bits = random_bits(seed, RandomStream::kSynthetic, kPixels, i / 8);
    images.pixels[i] = static_cast<uint8_t>(bits >> (i % 8 * 8));
  }
  for (size_t i = 0; i < images.labels.size(); ++i) {
    const uint64_t drawn = random_bits(seed, RandomStream::kSynthetic, kLabels, i);
    images.labels[i] =
        static_cast<Label>(uniform_below(drawn, static_cast<uint64_t>(info.classes)));
  }
  return images;
}

}  // namespace mantissa
