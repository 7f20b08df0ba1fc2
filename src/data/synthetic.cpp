#include "data/synthetic.h"

#include <utility>

#include "base/checked.h"
#include "base/random.h"
#include "data/batches/examples.h"

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
  const ExampleSet pictures = picture_set({height, width, channels}, {}, {});
  return DatasetInfo{.name = kSyntheticData,
                     .specs = examples_of(pictures).specs,
                     .target = {.classes = static_cast<int>(classes)},
                     .train_count = count,
                     .test_count = count,
                     .bytes = 2 * count * pictures.example_bytes()};
}

Result<DatasetInfo> synthetic_text_info(TextTask task, int64_t sequence, int64_t vocabulary,
                                        int64_t count) {
  if (sequence < 1 || sequence > kLongestSequence || vocabulary < 1 || vocabulary > kMaxClasses) {
    return invalid_input("synthetic texts: from 1 to " + std::to_string(kLongestSequence) +
                         " tokens of an example, out of 1 to " + std::to_string(kMaxClasses));
  }
  const auto bytes = checked_product({sequence, count, int64_t{sizeof(int32_t)}});
  if (count < 1 || !bytes || *bytes > kMostBytes) {
    return invalid_input("synthetic texts: a batch has at least one, and at most 1 GiB of tokens");
  }
  return DatasetInfo{
      .name = kSyntheticData,
      .specs = specs_for(task, sequence),
      .target = {.kind = TargetKind::kTokens, .classes = static_cast<int>(vocabulary)},
      .train_count = count,
      .test_count = count,
      .bytes = *bytes};
}

namespace {

ExampleSet noisy_texts(const DatasetInfo& info, uint64_t seed) {
  const auto sequence = static_cast<int32_t>(info.specs[0].shape[0]);
  const bool has_masks = info.find(kSegmentTensor) != nullptr;
  ExampleSet texts{.count = info.train_count};
  for (const TensorSpec& spec : info.specs) {
    const auto stream = kTokenNoise + static_cast<uint32_t>(texts.tensors.size());
    const auto drawn = [&](size_t i) {
      const uint64_t bits = random_bits(seed, RandomStream::kSynthetic, stream, i);
      const bool is_masked_label = has_masks && spec.name == kLabelTensor;
      if (is_masked_label && (bits & 0xFFFF) % 100 >= kChosenOf100) return kIgnoredLabel;
      return static_cast<int32_t>(
          uniform_below(bits >> 16 << 16, static_cast<uint64_t>(info.target.classes)));
    };
    std::vector<int32_t> numbers(static_cast<size_t>(info.train_count * spec.shape.count()),
                                 spec.name == kSegmentTensor ? 0 : sequence);
    const bool is_drawn = spec.shape.rank > 0 && spec.name != kSegmentTensor;
    for (size_t i = 0; is_drawn && i < numbers.size(); ++i) numbers[i] = drawn(i);
    texts.tensors.push_back({spec.name, spec.shape, std::move(numbers)});
  }
  return texts;
}

ExampleSet noisy_pictures(const DatasetInfo& info, uint64_t seed) {
  const Shape& shape = info.specs[0].shape;
  std::vector<uint8_t> pixels(static_cast<size_t>(info.train_count * shape.count()));
  std::vector<Label> labels(static_cast<size_t>(info.train_count));
  uint64_t bits = 0;
  for (size_t i = 0; i < pixels.size(); ++i) {
    if (i % 8 == 0) bits = random_bits(seed, RandomStream::kSynthetic, kPixelNoise, i / 8);
    pixels[i] = static_cast<uint8_t>(bits >> (i % 8 * 8));
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    const uint64_t drawn = random_bits(seed, RandomStream::kSynthetic, kLabelNoise, i);
    labels[i] =
        static_cast<Label>(uniform_below(drawn, static_cast<uint64_t>(info.target.classes)));
  }
  return picture_set({shape[0], shape[1], shape[2]}, std::move(pixels), std::move(labels));
}

}  // namespace

ExampleSet synthetic_examples(const DatasetInfo& info, uint64_t seed) {
  const bool has_tokens = info.target.kind == TargetKind::kTokens;
  return has_tokens ? noisy_texts(info, seed) : noisy_pictures(info, seed);
}

}  // namespace mantissa
