// Data sets of labelled pictures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace mantissa {

struct ImageSet {
  int64_t count = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;  // [count][height][width][channels]
  std::vector<uint8_t> labels;  // [count]

  int64_t example_bytes() const { return height * width * channels; }
};

struct DatasetInfo {
  std::string name;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  int classes = 0;
  int64_t train_count = 0;
  int64_t test_count = 0;
  std::vector<std::string> class_names;  // [classes]

  // What both splits occupy in memory when loaded.
  int64_t bytes() const { return (train_count + test_count) * (height * width * channels + 1); }
};

struct Dataset {
  DatasetInfo info;
  ImageSet train;
  ImageSet test;
};

// Describes a data set from its headers and label files, without reading pictures.
//
// A name: "fashion-mnist", looked for in $MANTISSA_DATA/fashion-mnist and where Debian's package
// dataset-fashion-mnist installs it. Or a folder with the IDX files train-images-idx3-ubyte,
// train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each plain or .gz;
// pictures are [count][height][width] or [count][height][width][channels], channels 1 or 3.
//
// Errors name the files: missing, damaged, no examples, different numbers of pictures and labels,
// train and test pictures of different sizes, a label in test that is not in train's range.
Result<DatasetInfo> inspect_dataset(const std::string& name_or_path);

// Loads the splits that are wanted (the other stays empty); errors as inspect_dataset. Pictures are
// read straight into their final buffer: no second copy.
Result<Dataset> load_dataset(const std::string& name_or_path, bool with_train, bool with_test);

// The mean of each channel over all pictures, rounded to nearest (ties up); zeros for an empty set.
std::vector<int> channel_means(const ImageSet& images);

}  // namespace mantissa
