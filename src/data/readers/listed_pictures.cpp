#include "data/readers/listed_pictures.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "data/pictures/picture_files.h"
#include "formats/pictures/image.h"

namespace mantissa {

Status inspect_headers(FoundSplit& split, int threads, FoundData& found) {
  std::vector<ImageHeader> headers(split.files.size());
  PictureResults results = for_each_picture(split.count, threads, [&](int64_t i) -> Status {
    MANTISSA_ASSIGN(headers[i], read_image_header(split.file(i)));
    return {};
  });
  if (results.failure) return *results.failure;
  const std::string note = "reading pictures: " + results.shortage;
  if (!results.shortage.empty() && (found.notes.empty() || found.notes.back() != note)) {
    found.notes.push_back(note);
  }
  const auto less = [](const PictureSize& a, const PictureSize& b) {
    return std::make_tuple(a.height * a.width, a.height) <
           std::make_tuple(b.height * b.width, b.height);
  };
  size_t kept = 0;
  for (size_t i = 0; i < headers.size(); ++i) {
    if (!results.errors[i].empty()) {
      found.unreadable.push_back(std::move(results.errors[i]));
      continue;
    }
    const PictureSize size = {headers[i].height, headers[i].width};
    if (found.channels == 0 || less(size, found.smallest)) found.smallest = size;
    if (found.channels == 0 || less(found.largest, size)) found.largest = size;
    found.channels = std::max(found.channels, headers[i].channels);
    found.decoding_bytes = std::max(found.decoding_bytes, headers[i].decoding_bytes);
    if (kept != i) split.files[kept] = std::move(split.files[i]);
    split.labels[kept++] = split.labels[i];
  }
  split.files.resize(kept);
  split.labels.resize(kept);
  split.count = static_cast<int64_t>(kept);
  return {};
}

Result<ExampleSet> read_listed(const FoundData& found, const FoundSplit& split,
                               const ReadOptions& options) {
  MANTISSA_ASSIGN(ExampleSet set, empty_set(split.count, options.form));
  set.count = split.count;
  set.find(kLabelTensor)->as<Label>() = split.labels;
  auto& pixels = set.find(kPixelTensor)->as<uint8_t>();
  pixels.resize(static_cast<size_t>(split.count * options.form.bytes()));
  PictureResults results = for_each_picture(
      split.count, reading_threads(found.decoding_bytes, options.threads),
      [&](int64_t i) -> Status {
        MANTISSA_ASSIGN(const Image image,
                        read_image(split.file(i), static_cast<int>(options.form.channels)));
        fit_picture(image.pixels.data(), {image.height, image.width, image.channels}, options.form,
                    pixels.data() + i * options.form.bytes());
        return {};
      });
  if (results.failure) return *results.failure;
  std::vector<bool> is_unreadable;
  for (std::string& error : results.errors) {
    is_unreadable.push_back(!error.empty());
    if (error.empty()) continue;
    if (options.unreadable == nullptr) return invalid_input(error);
    options.unreadable->push_back(std::move(error));
  }
  erase_examples(is_unreadable, set);
  return set;
}

}  // namespace mantissa
