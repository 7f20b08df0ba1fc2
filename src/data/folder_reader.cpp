// Folders of pictures: one folder per class, in those of splits or without them.
#include <algorithm>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "data/folder_layout.h"
#include "data/readers.h"
#include "formats/image.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTestPart = 10;  // one picture in so many, where the data have no test folder

// A folder that cannot be listed is left to the reader, which says why.
bool recognises(const fs::path& folder) {
  const auto entries = list_folder(folder);
  return !entries.ok() || !entries->pictures.empty() || !all_folders(*entries).empty();
}

// Moves a part of each class to the test split: the pictures whose names ("CLASS/FILE") have the
// smallest SHA-256. So it depends on names alone, and a new picture moves hardly any other.
ClassFolders split_off(ClassFolders& train) {
  ClassFolders test;
  test.root = train.root;
  for (ClassFiles& one : train.classes) {
    const auto all = static_cast<int64_t>(one.files.size());
    const int64_t count = all < 2 ? 0 : std::max<int64_t>(1, all / kTestPart);
    std::vector<std::pair<std::string, std::string>> keyed;
    for (std::string& file : one.files) {
      std::string key = sha256_hex(one.name + "/" + file);
      keyed.emplace_back(std::move(key), std::move(file));
    }
    std::sort(keyed.begin(), keyed.end());
    ClassFiles kept{one.name, {}};
    one.files.clear();
    for (int64_t i = 0; i < all; ++i) {
      (i < count ? kept : one).files.push_back(std::move(keyed[i].second));
    }
    for (std::vector<std::string>* files : {&kept.files, &one.files}) {
      std::sort(files->begin(), files->end());
    }
    test.classes.push_back(std::move(kept));
  }
  return test;
}

// The classes of a split as one list, numbered as in `names`, which are sorted.
Result<FoundSplit> make_split(ClassFolders folders, const std::vector<std::string>& names) {
  FoundSplit split;
  for (ClassFiles& one : folders.classes) {
    const auto place = std::lower_bound(names.begin(), names.end(), one.name);
    if (place == names.end() || *place != one.name) {
      return invalid_input(quoted(folders.root / one.name) +
                           ": there is no such class among the training pictures");
    }
    split.labels.insert(split.labels.end(), one.files.size(),
                        static_cast<Label>(place - names.begin()));
    for (const std::string& file : std::exchange(one.files, {})) {
      split.files.push_back(one.name + "/" + file);
    }
  }
  split.folder = std::move(folders.root);
  split.count = static_cast<int64_t>(split.files.size());
  return split;
}

// Reads the headers of a split, in parallel, and takes unreadable files out of it.
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

Result<FoundData> inspect(const fs::path& folder, const DataOptions& options) {
  FoundData found;
  MANTISSA_ASSIGN(FolderLayout layout, find_layout(folder));
  found.notes = std::move(layout.notes);
  for (const ClassFiles& one : layout.train.classes) found.class_names.push_back(one.name);
  found.named = true;
  if (layout.test.root.empty()) {
    layout.test = split_off(layout.train);
    found.notes.push_back("there is no test folder: one picture in " + std::to_string(kTestPart) +
                          " of each class is kept for testing");
  }
  const std::vector<std::string>& names = found.class_names;
  MANTISSA_ASSIGN(found.train, make_split(std::move(layout.train), names));
  MANTISSA_ASSIGN(found.validation, make_split(std::move(layout.validation), names));
  MANTISSA_ASSIGN(found.test, make_split(std::move(layout.test), names));
  for (const SplitRow& row : kSplitRows) {
    MANTISSA_RETURN_IF_ERROR(inspect_headers(found.*row.found, options.threads, found));
  }
  return found;
}

// Drops the pictures that could not be read.
void drop_unreadable(std::vector<std::string>& errors, std::vector<std::string>& unreadable,
                     ImageSet& set) {
  const int64_t bytes = set.example_bytes();
  int64_t kept = 0;
  for (int64_t i = 0; i < set.count; ++i) {
    if (!errors[i].empty()) {
      unreadable.push_back(std::move(errors[i]));
      continue;
    }
    std::copy_n(set.pixels.begin() + i * bytes, bytes, set.pixels.begin() + kept * bytes);
    set.labels[kept++] = set.labels[i];
  }
  set.count = kept;
  set.pixels.resize(static_cast<size_t>(kept * bytes));
  set.labels.resize(static_cast<size_t>(kept));
}

Result<ImageSet> read(const FoundData& found, const FoundSplit& split, const ReadOptions& options) {
  MANTISSA_ASSIGN(ImageSet set, empty_set(split.count, options.form));
  set.count = split.count;
  set.labels = split.labels;
  set.pixels.resize(static_cast<size_t>(split.count * options.form.bytes()));
  PictureResults results = for_each_picture(
      split.count, reading_threads(found.decoding_bytes, options.threads),
      [&](int64_t i) -> Status {
        MANTISSA_ASSIGN(const Image image,
                        read_image(split.file(i), static_cast<int>(options.form.channels)));
        fit_picture(image.pixels.data(), {image.height, image.width, image.channels}, options.form,
                    set.pixels.data() + i * options.form.bytes());
        return {};
      });
  if (results.failure) return *results.failure;
  if (options.unreadable != nullptr) {
    drop_unreadable(results.errors, *options.unreadable, set);
    return set;
  }
  for (const std::string& error : results.errors) {
    if (!error.empty()) return invalid_input(error);
  }
  return set;
}

}  // namespace

const DataReader kFolderReader = {"folders of pictures",
                                  "a folder for each class with .png, .jpg or .jpeg files, in "
                                  "train/, val/ and test/ or without these",
                                  recognises, inspect, read};

}  // namespace mantissa
