// Folders with IDX files, as of MNIST and its kin.
#include <algorithm>
#include <utility>

#include "base/files/file_system.h"
#include "data/datasets/readers.h"
#include "formats/arrays/idx.h"
#include "formats/gzip.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// files[kImages] and files[kLabels] of a split.
constexpr int kImages = 0, kLabels = 1;

constexpr const char* kPrefixes[] = {"train", "t10k"};

// The names that a file may have: "train-images-idx3-ubyte", the same with a dot, as some archives
// have it, or compressed. `what` is "images-idx3" or "labels-idx1".
std::vector<std::string> names_of(const std::string& prefix, const std::string& what) {
  std::string dotted = what;
  dotted.replace(dotted.find('-'), 1, ".");
  std::vector<std::string> names;
  for (const std::string& name : {what, dotted}) {
    for (const char* suffix : {"", ".gz"}) names.push_back(prefix + "-" + name + "-ubyte" + suffix);
  }
  return names;
}

std::string pair_of(const fs::path& a, const fs::path& b) {
  return quoted(a) + " and " + quoted(b);
}

bool recognises(const fs::path& folder) {
  for (const char* prefix : kPrefixes) {
    for (const std::string& name : names_of(prefix, "images-idx3")) {
      if (is_file(folder / name)) return true;
    }
  }
  return false;
}

// The first of these that is there. Some archives also have folders of that name.
Result<std::string> find_file(const fs::path& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    MANTISSA_ASSIGN(const PathKind kind, path_kind(folder / name));
    if (kind != PathKind::kNothing && kind != PathKind::kFolder) return name;
  }
  return invalid_input("there is neither " + quoted(folder / names[0]) + " nor " +
                       quoted(folder / names[1]) + ", nor one named " + names[2]);
}

PictureForm form_of(const IdxHeader& header) {
  return {header.dims[1], header.dims[2], header.dims.size() == 4 ? header.dims[3] : 1};
}

Result<IdxHeader> inspect_images(const fs::path& path) {
  MANTISSA_ASSIGN(IdxHeader header, read_idx_header(path));
  const size_t dims = header.dims.size();
  if (dims < 3) {
    return invalid_input(quoted(path) + ": pictures have 3 or 4 dimensions, not " +
                         std::to_string(dims));
  }
  const int64_t channels = form_of(header).channels;
  if (channels != 1 && channels != 3) {
    return invalid_input(quoted(path) + ": pictures have 1 or 3 channels, not " +
                         std::to_string(channels));
  }
  if (header.elements() == 0) return invalid_input(quoted(path) + ": there are no pictures");
  return header;
}

Result<FoundSplit> inspect_split(const fs::path& folder, const std::string& prefix,
                                 PictureForm& form) {
  FoundSplit split;
  split.folder = folder;
  split.files.resize(2);
  MANTISSA_ASSIGN(split.files[kImages], find_file(folder, names_of(prefix, "images-idx3")));
  MANTISSA_ASSIGN(split.files[kLabels], find_file(folder, names_of(prefix, "labels-idx1")));
  const fs::path images_file = split.file(kImages), labels_file = split.file(kLabels);
  MANTISSA_ASSIGN(const IdxHeader images, inspect_images(images_file));
  split.count = images.dims[0];
  form = form_of(images);
  MANTISSA_ASSIGN(const IdxHeader labels, read_idx_header(labels_file));
  if (labels.dims.size() != 1) {
    return invalid_input(quoted(labels_file) + ": labels have 1 dimension, not " +
                         std::to_string(labels.dims.size()));
  }
  if (labels.dims[0] != split.count) {
    return invalid_input(pair_of(images_file, labels_file) +
                         " do not match: " + std::to_string(split.count) + " pictures and " +
                         std::to_string(labels.dims[0]) + " labels");
  }
  MANTISSA_ASSIGN(IdxArray array, read_idx(labels_file));
  if (array.header != labels) {
    return invalid_input(quoted(labels_file) + ": changed while it was read");
  }
  split.labels.assign(array.data.begin(), array.data.end());
  return split;
}

Result<FoundData> inspect(const fs::path& folder, const DataOptions&) {
  FoundData found;
  PictureForm train, test;
  MANTISSA_ASSIGN(found.train, inspect_split(folder, kPrefixes[0], train));
  MANTISSA_ASSIGN(found.test, inspect_split(folder, kPrefixes[1], test));
  if (train != test) {
    return invalid_input(pair_of(found.train.file(kImages), found.test.file(kImages)) +
                         " do not match: their pictures differ in size");
  }
  const auto largest = [](const FoundSplit& split) {
    return int{*std::max_element(split.labels.begin(), split.labels.end())};
  };
  if (largest(found.test) > largest(found.train)) {
    return invalid_input(pair_of(found.train.file(kLabels), found.test.file(kLabels)) +
                         " do not match: the largest label is " +
                         std::to_string(largest(found.train)) + " in train and " +
                         std::to_string(largest(found.test)) + " in test");
  }
  found.smallest = found.largest = {train.height, train.width};
  found.channels = train.channels;
  found.target.names = numbered_classes(largest(found.train) + 1);
  return found;
}

// Picture by picture, each brought to the wanted form: no second copy.
Result<ExampleSet> read(const FoundData& found, const FoundSplit& split,
                        const ReadOptions& options) {
  const fs::path path = split.file(kImages);
  const PictureForm stored = {found.largest.height, found.largest.width, found.channels};
  MANTISSA_ASSIGN(ByteReader reader, ByteReader::open(path));
  MANTISSA_ASSIGN(const IdxHeader header, read_idx_header(reader));
  if (header.dims.size() < 3 || header.dims[0] != split.count || form_of(header) != stored) {
    return invalid_input(quoted(path) + ": changed while it was read");
  }
  MANTISSA_ASSIGN(ExampleSet set, empty_set(split.count, options.form));
  std::vector<uint8_t> picture(static_cast<size_t>(stored.bytes()));
  for (int64_t i = 0; i < split.count; ++i) {
    MANTISSA_RETURN_IF_ERROR(reader.read_exactly(picture));
    append_picture(picture.data(), stored, split.labels[static_cast<size_t>(i)], set);
  }
  MANTISSA_RETURN_IF_ERROR(reader.expect_end());
  return set;
}

}  // namespace

const DataReader kIdxReader = {
    "IDX files", "train-images-idx3-ubyte (and its labels, and t10k-...; plain or .gz)", recognises,
    inspect, read};

}  // namespace mantissa
