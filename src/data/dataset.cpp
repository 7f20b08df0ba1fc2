#include "data/dataset.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "formats/idx.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFashionMnist = "fashion-mnist";
constexpr const char* kSystemFolder = "/usr/share/datasets";

constexpr std::array kFashionMnistClasses = {"T-shirt/top", "Trouser",   "Pullover", "Dress",
                                             "Coat",        "Sandal",    "Shirt",    "Sneaker",
                                             "Bag",         "Ankle boot"};

// One split before its pictures are read.
struct Split {
  fs::path images_file;
  fs::path labels_file;
  IdxHeader images;
  std::vector<uint8_t> labels;

  int64_t count() const { return images.dims[0]; }
  int64_t channels() const { return images.dims.size() == 4 ? images.dims[3] : 1; }
  int max_label() const { return *std::max_element(labels.begin(), labels.end()); }
};

struct Inspected {
  DatasetInfo info;
  Split train;
  Split test;
};

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

std::string pair_of(const fs::path& a, const fs::path& b) {
  return quoted(a) + " and " + quoted(b);
}

// The folder that holds the data set's files.
Result<fs::path> find_folder(const std::string& name_or_path) {
  if (name_or_path != kFashionMnist) {
    if (is_folder(name_or_path)) return fs::path(name_or_path);
    return invalid_input("no data set '" + name_or_path +
                         "': give fashion-mnist or a folder with IDX files");
  }
  std::vector<fs::path> candidates;
  if (const char* folder = std::getenv("MANTISSA_DATA"); folder != nullptr && *folder != '\0') {
    candidates.push_back(fs::path(folder) / kFashionMnist);
  }
  candidates.push_back(fs::path(kSystemFolder) / kFashionMnist);
  std::string looked;
  for (const fs::path& candidate : candidates) {
    if (is_folder(candidate)) return candidate;
    looked += (looked.empty() ? "" : ", ") + quoted(candidate);
  }
  return invalid_input("fashion-mnist is not at " + looked +
                       ": install Debian's package dataset-fashion-mnist or pass a folder with IDX "
                       "files");
}

Result<fs::path> find_file(const fs::path& folder, const std::string& name) {
  for (const char* suffix : {"", ".gz"}) {
    const fs::path path = folder / (name + suffix);
    std::error_code ignored;
    if (fs::exists(path, ignored)) return path;
  }
  return invalid_input("there is neither " + quoted(folder / name) + " nor " +
                       quoted(folder / (name + ".gz")));
}

Result<Split> inspect_split(const fs::path& folder, const std::string& prefix) {
  Split split;
  MANTISSA_ASSIGN(split.images_file, find_file(folder, prefix + "-images-idx3-ubyte"));
  MANTISSA_ASSIGN(split.labels_file, find_file(folder, prefix + "-labels-idx1-ubyte"));
  MANTISSA_ASSIGN(split.images, read_idx_header(split.images_file));
  const size_t dims = split.images.dims.size();
  if (dims < 3) {
    return invalid_input(quoted(split.images_file) + ": pictures have 3 or 4 dimensions, not " +
                         std::to_string(dims));
  }
  if (split.channels() != 1 && split.channels() != 3) {
    return invalid_input(quoted(split.images_file) + ": pictures have 1 or 3 channels, not " +
                         std::to_string(split.channels()));
  }
  if (split.images.elements() == 0) {
    return invalid_input(quoted(split.images_file) + ": there are no pictures");
  }
  MANTISSA_ASSIGN(const IdxHeader labels, read_idx_header(split.labels_file));
  if (labels.dims.size() != 1) {
    return invalid_input(quoted(split.labels_file) + ": labels have 1 dimension, not " +
                         std::to_string(labels.dims.size()));
  }
  if (labels.dims[0] != split.count()) {
    return invalid_input(pair_of(split.images_file, split.labels_file) +
                         " do not match: " + std::to_string(split.count()) + " pictures and " +
                         std::to_string(labels.dims[0]) + " labels");
  }
  MANTISSA_ASSIGN(IdxArray array, read_idx(split.labels_file));
  if (array.header != labels) {
    return invalid_input(quoted(split.labels_file) + ": changed while it was read");
  }
  split.labels = std::move(array.data);
  return split;
}

Status check_splits_match(const Split& train, const Split& test) {
  const IdxHeader& a = train.images;
  const IdxHeader& b = test.images;
  if (a.dims[1] != b.dims[1] || a.dims[2] != b.dims[2] || train.channels() != test.channels()) {
    return invalid_input(pair_of(train.images_file, test.images_file) +
                         " do not match: their pictures differ in size");
  }
  if (test.max_label() > train.max_label()) {
    return invalid_input(pair_of(train.labels_file, test.labels_file) +
                         " do not match: the largest label is " +
                         std::to_string(train.max_label()) + " in train and " +
                         std::to_string(test.max_label()) + " in test");
  }
  return {};
}

std::vector<std::string> class_names(const std::string& name, int classes) {
  if (name == kFashionMnist && classes == static_cast<int>(kFashionMnistClasses.size())) {
    return {kFashionMnistClasses.begin(), kFashionMnistClasses.end()};
  }
  std::vector<std::string> names;
  for (int i = 0; i < classes; ++i) names.push_back(std::to_string(i));
  return names;
}

Result<Inspected> inspect(const std::string& name_or_path) {
  MANTISSA_ASSIGN(const fs::path folder, find_folder(name_or_path));
  Inspected found;
  MANTISSA_ASSIGN(found.train, inspect_split(folder, "train"));
  MANTISSA_ASSIGN(found.test, inspect_split(folder, "t10k"));
  MANTISSA_RETURN_IF_ERROR(check_splits_match(found.train, found.test));
  DatasetInfo& info = found.info;
  info.name = name_or_path;
  info.height = found.train.images.dims[1];
  info.width = found.train.images.dims[2];
  info.channels = found.train.channels();
  info.classes = found.train.max_label() + 1;
  info.train_count = found.train.count();
  info.test_count = found.test.count();
  info.class_names = class_names(info.name, info.classes);
  return found;
}

Result<ImageSet> load_split(const DatasetInfo& info, Split& split) {
  MANTISSA_ASSIGN(IdxArray array, read_idx(split.images_file));
  if (array.header != split.images) {
    return invalid_input(quoted(split.images_file) + ": changed while it was read");
  }
  return ImageSet{split.count(), info.height,           info.width,
                  info.channels, std::move(array.data), std::move(split.labels)};
}

}  // namespace

Result<DatasetInfo> inspect_dataset(const std::string& name_or_path) {
  MANTISSA_ASSIGN(Inspected found, inspect(name_or_path));
  return std::move(found.info);
}

Result<Dataset> load_dataset(const std::string& name_or_path, bool with_train, bool with_test) {
  MANTISSA_ASSIGN(Inspected found, inspect(name_or_path));
  Dataset dataset;
  if (with_train) {
    MANTISSA_ASSIGN(dataset.train, load_split(found.info, found.train));
  }
  if (with_test) {
    MANTISSA_ASSIGN(dataset.test, load_split(found.info, found.test));
  }
  dataset.info = std::move(found.info);
  return dataset;
}

std::vector<int> channel_means(const ImageSet& images) {
  const int64_t pixels = images.count * images.height * images.width;
  std::vector<int64_t> sums(static_cast<size_t>(images.channels), 0);
  const uint8_t* sample = images.pixels.data();
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (int64_t& sum : sums) sum += *sample++;
  }
  std::vector<int> means;
  for (const int64_t sum : sums) {
    means.push_back(pixels == 0 ? 0 : static_cast<int>((sum + pixels / 2) / pixels));
  }
  return means;
}

}  // namespace mantissa
