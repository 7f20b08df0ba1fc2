#include "data/synthetic.h"

#include "base/checked.h"
#include "base/random.h"

namespace mantissa {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;

// Separate random streams, each for one purpose; the streams of a text's arrays follow.
constexpr uint32_t kPixelNoise = 0, kLabelNoise = 1, kTokenNoise = 2;

constexpr uint64_t kChosenOf100 = 15;  // labels that a task of masks counts

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

Result<DatasetInfo> synthetic_text_info(int64_t sequence, int64_t vocabulary, int64_t count) {
  if (sequence < 1 || sequence > kLongestSequence || vocabulary < 1 || vocabulary > kMaxClasses) {
    return invalid_input("synthetic texts: from 1 to " + std::to_string(kLongestSequence) +
                         " tokens of an example, out of 1 to " + std::to_string(kMaxClasses));
  }
  const auto bytes = checked_product({sequence, count, int64_t{sizeof(int32_t)}});
  if (count < 1 || !bytes || *bytes > kMostBytes) {
    return invalid_input("synthetic texts: a batch has at least one, and at most 1 GiB of tokens");
  }
  return DatasetInfo{.name = kSyntheticData,
                     .classes = static_cast<int>(vocabulary),
                     .train_count = count,
                     .test_count = count,
                     .sequence = sequence,
                     .text_bytes = *bytes};
}

std::vector<std::vector<int32_t>> synthetic_tokens(const DatasetInfo& info, TextTask task,
                                                   uint64_t seed) {
  std::vector<std::vector<int32_t>> arrays;
  for (const TensorSpec& spec : specs_for(task, info.sequence)) {
    const auto stream = kTokenNoise + static_cast<uint32_t>(arrays.size());
    const auto drawn = [&](size_t i) {
      const uint64_t bits = random_bits(seed, RandomStream::kSynthetic, stream, i);
      const bool is_masked_task_label = task == TextTask::kMasks && spec.name == kLabelTensor;
      if (is_masked_task_label && (bits & 0xFFFF) % 100 >= kChosenOf100) return kIgnoredLabel;
      return static_cast<int32_t>(
          uniform_below(bits >> 16 << 16, static_cast<uint64_t>(info.classes)));
    };
    std::vector<int32_t>& array =
        arrays.emplace_back(static_cast<size_t>(info.train_count * spec.shape.count()),
                            spec.name == kSegmentTensor ? 0 : static_cast<int32_t>(info.sequence));
    if (spec.shape.rank == 0 || spec.name == kSegmentTensor) continue;
    for (size_t i = 0; i < array.size(); ++i) array[i] = drawn(i);
  }
  return arrays;
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
    if (i % 8 == 0) bits = random_bits(seed, RandomStream::kSynthetic, kPixelNoise, i / 8);
    images.pixels[i] = static_cast<uint8_t>(bits >> (i % 8 * 8));
  }
  for (size_t i = 0; i < images.labels.size(); ++i) {
    const uint64_t drawn = random_bits(seed, RandomStream::kSynthetic, kLabelNoise, i);
    images.labels[i] =
        static_cast<Label>(uniform_below(drawn, static_cast<uint64_t>(info.classes)));
  }
  return images;
}

}  // namespace mantissa
