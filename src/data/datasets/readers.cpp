#include "data/datasets/readers.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/files/file_system.h"
#include "base/sizes.h"

namespace mantissa {
namespace {

constexpr int64_t kMaxReadingBytes = int64_t{256} << 20;

// Lists of pictures may be CSV files: they come before tables.
constexpr const DataReader* kReaders[] = {&kIdxReader,         &kCifar10Reader, &kCifar100Reader,
                                          &kCifarPythonReader, &kListReader,    &kArrayReader,
                                          &kCsvReader,         &kFolderReader};

}  // namespace

std::span<const DataReader* const> data_readers() { return kReaders; }

int reading_threads(int64_t decoding_bytes, int threads) {
  const int64_t at_once = kMaxReadingBytes / std::max<int64_t>(1, decoding_bytes);
  return static_cast<int>(std::clamp<int64_t>(at_once, 1, std::max(1, threads)));
}

bool is_file(const std::filesystem::path& path) {
  const auto kind = path_kind(path);
  return !kind.ok() || *kind == PathKind::kFile;
}

bool is_folder(const std::filesystem::path& path) {
  const auto kind = path_kind(path);
  return !kind.ok() || *kind == PathKind::kFolder;
}

std::string quoted(const std::filesystem::path& path) { return "'" + path.string() + "'"; }

std::vector<std::string> numbered_classes(int classes) {
  std::vector<std::string> names;
  for (int i = 0; i < classes; ++i) names.push_back(std::to_string(i));
  return names;
}

Result<ExampleSet> empty_set(int64_t count, const PictureForm& form) {
  const int64_t bytes = checked_product({count, form.height, form.width, form.channels})
                            .value_or(std::numeric_limits<int64_t>::max());
  try {
    std::vector<uint8_t> pixels;
    std::vector<Label> labels;
    pixels.reserve(static_cast<size_t>(bytes));
    labels.reserve(static_cast<size_t>(count));
    return picture_set(form, std::move(pixels), std::move(labels));
  } catch (const std::exception&) {  // bad_alloc or length_error
    return out_of_memory(std::to_string(count) + " pictures of " + std::to_string(form.height) +
                             "x" + std::to_string(form.width) + "x" + std::to_string(form.channels),
                         bytes);
  }
}

void append_picture(const uint8_t* pixels, const PictureForm& form, Label label, ExampleSet& set) {
  const PictureForm to = set.picture_form();
  auto& stored = set.find(kPixelTensor)->as<uint8_t>();
  const size_t end = stored.size();
  stored.resize(end + static_cast<size_t>(to.bytes()));
  fit_picture(pixels, form, to, stored.data() + end);
  set.find(kLabelTensor)->as<Label>().push_back(label);
  ++set.count;
}

}  // namespace mantissa
