// For tests: the same pictures as data sets of every kind.
#pragma once

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_folder.h"
#include "data/datasets/dataset.h"
#include "formats/pictures/png.h"
#include "formats/pictures/test_jpeg.h"

namespace mantissa::testing {

namespace fs = std::filesystem;

// The first `count` examples, in the order of their classes: folders know no other.
inline ExampleSet by_class(const ExampleSet& images, int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(std::min(count, images.count)));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return images.labels()[a] < images.labels()[b]; });
  const PictureForm form = images.picture_form();
  std::vector<uint8_t> pixels;
  std::vector<Label> labels;
  for (const int64_t i : order) {
    const auto first = images.pixels().begin() + i * form.bytes();
    pixels.insert(pixels.end(), first, first + form.bytes());
    labels.push_back(images.labels()[i]);
  }
  return picture_set(form, std::move(pixels), std::move(labels));
}

// Grey pictures at 32 x 32, each tinted in a colour of its own.
inline ExampleSet coloured(const ExampleSet& grey) {
  const PictureForm form = {32, 32, 3}, from = grey.picture_form();
  std::vector<uint8_t> pixels(static_cast<size_t>(grey.count * form.bytes()));
  for (int64_t i = 0; i < grey.count; ++i) {
    uint8_t* out = pixels.data() + i * form.bytes();
    fit_picture(grey.pixels().data() + i * from.bytes(), from, form, out);
    const uint64_t tint = random_bits(1, RandomStream::kSynthetic, 0, static_cast<uint64_t>(i));
    for (int64_t at = 0; at < form.bytes(); ++at) {
      const uint64_t factor = 128 + (tint >> (at % 3 * 8) & 0x7f);
      out[at] = static_cast<uint8_t>(out[at] * factor >> 8);
    }
  }
  return picture_set(form, std::move(pixels), grey.labels());
}

inline void put_idx_file(const fs::path& path, const std::vector<int64_t>& dims,
                         const std::vector<uint8_t>& data) {
  std::vector<uint8_t> file = {0, 0, 8, static_cast<uint8_t>(dims.size())};
  for (const int64_t dim : dims) {
    for (const int shift : {24, 16, 8, 0}) file.push_back(static_cast<uint8_t>(dim >> shift));
  }
  file.insert(file.end(), data.begin(), data.end());
  put_file(path, file);
}

inline void put_idx_split(const fs::path& folder, const std::string& prefix,
                          const ExampleSet& set) {
  const PictureForm form = set.picture_form();
  std::vector<int64_t> dims = {set.count, form.height, form.width};
  if (form.channels != 1) dims.push_back(form.channels);
  put_idx_file(folder / (prefix + "-images-idx3-ubyte"), dims, set.pixels());
  put_idx_file(folder / (prefix + "-labels-idx1-ubyte"), {set.count},
               {set.labels().begin(), set.labels().end()});
}

inline void put_idx_dataset(const fs::path& folder, const Dataset& data) {
  fs::create_directories(folder);
  put_idx_split(folder, "train", data.train);
  put_idx_split(folder, "t10k", data.test);
}

// Records first ... last - 1 of pictures of 32 x 32 x 3.
inline std::vector<uint8_t> cifar_records(const ExampleSet& set, int64_t first, int64_t last) {
  std::vector<uint8_t> records;
  for (int64_t i = first; i < last; ++i) {
    records.push_back(static_cast<uint8_t>(set.labels()[i]));
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t at = 0; at < 1024; ++at) {
        records.push_back(set.pixels()[i * set.picture_form().bytes() + 3 * at + c]);
      }
    }
  }
  return records;
}

inline void put_cifar_dataset(const fs::path& folder, const Dataset& data) {
  fs::create_directories(folder);
  for (int64_t batch = 0; batch < 5; ++batch) {
    put_file(folder / ("data_batch_" + std::to_string(batch + 1) + ".bin"),
             cifar_records(data.train, data.train.count * batch / 5,
                           data.train.count * (batch + 1) / 5));
  }
  put_file(folder / "test_batch.bin", cifar_records(data.test, 0, data.test.count));
}

inline void put_folder_split(const fs::path& folder, const ExampleSet& set, bool jpeg) {
  const PictureForm form = set.picture_form();
  for (int64_t i = 0; i < set.count; ++i) {
    char name[32];
    std::snprintf(name, sizeof name, "%07lld.%s", static_cast<long long>(i), jpeg ? "jpg" : "png");
    // Two digits, so that names have the order of numbers.
    const fs::path path =
        folder / (std::string(set.labels()[i] < 10 ? "0" : "") + std::to_string(set.labels()[i]));
    fs::create_directories(path);
    const auto first = set.pixels().begin() + i * form.bytes();
    std::vector<uint8_t> pixels(first, first + form.bytes());
    if (jpeg) {
      put_jpeg(path / name, {static_cast<int>(form.width), static_cast<int>(form.height),
                             form.channels == 1 ? JCS_GRAYSCALE : JCS_RGB, std::move(pixels), 95});
    } else {
      const auto png = encode_png({form.height, form.width, form.channels, std::move(pixels)});
      if (png.ok()) put_file(path / name, *png);
    }
  }
}

inline void put_folder_dataset(const fs::path& folder, const Dataset& data, bool jpeg) {
  put_folder_split(folder / "train", data.train, jpeg);
  put_folder_split(folder / "test", data.test, jpeg);
}

}  // namespace mantissa::testing
