// Folders of pictures: one folder per class, in train/ and test/ (or val/), or without them.
#include <algorithm>
#include <tuple>
#include <utility>

#include "base/hash.h"
#include "data/picture_files.h"
#include "data/readers.h"
#include "formats/image.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTestFolders[] = {"test", "val", "valid", "validation"};
constexpr int64_t kTestPart = 10;  // one picture in so many, where the data have no test folder

Result<std::vector<fs::path>> subfolders(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const bool hidden = entry->path().filename().string().starts_with(".");
    if (!hidden && is_folder(entry->path())) found.push_back(entry->path());
  }
  if (error) return invalid_input(quoted(folder) + " cannot be listed: " + error.message());
  std::sort(found.begin(), found.end());
  return found;
}

// The pictures of one class.
struct ClassFiles {
  std::string name;
  std::vector<fs::path> files;
};

// All classes below a folder that have pictures, by name. What is no picture is added to `others`.
Result<std::vector<ClassFiles>> find_classes(const fs::path& root, PictureFiles& others,
                                             std::vector<std::string>& notes) {
  std::vector<ClassFiles> classes;
  std::vector<fs::path> empty;
  MANTISSA_ASSIGN(const std::vector<fs::path> folders, subfolders(root));
  for (const fs::path& folder : folders) {
    MANTISSA_ASSIGN(PictureFiles found, find_pictures(folder));
    if (others.others == 0 && found.others > 0) others.first_other = found.first_other;
    others.others += found.others;
    if (found.files.empty()) {
      empty.push_back(folder);
    } else {
      classes.push_back({folder.filename().string(), std::move(found.files)});
    }
  }
  if (!empty.empty()) {
    notes.push_back("folders without pictures are no classes: " + quoted(empty[0]) +
                    (empty.size() > 1 ? " and " + std::to_string(empty.size() - 1) + " more" : ""));
  }
  return classes;
}

// What cannot be listed is left to reading it, which says why.
bool recognises(const fs::path& folder) {
  const auto folders = subfolders(folder);
  return !folders.ok() || !folders->empty();
}

// Moves a part of each class to the test split: the pictures whose names ("CLASS/FILE") have the
// smallest SHA-256. So it depends on names alone, and a new picture moves hardly any other.
std::vector<ClassFiles> split_off(const fs::path& root, std::vector<ClassFiles>& classes) {
  std::vector<ClassFiles> test;
  for (ClassFiles& one : classes) {
    const auto all = static_cast<int64_t>(one.files.size());
    const int64_t count = all < 2 ? 0 : std::max<int64_t>(1, all / kTestPart);
    std::vector<std::pair<std::string, fs::path>> keyed;
    for (const fs::path& file : one.files) {
      keyed.emplace_back(sha256_hex(file.lexically_relative(root).generic_string()), file);
    }
    std::sort(keyed.begin(), keyed.end());
    test.push_back({one.name, {}});
    one.files.clear();
    for (int64_t i = 0; i < all; ++i) {
      (i < count ? test.back() : one).files.push_back(std::move(keyed[i].second));
    }
    for (std::vector<fs::path>* files : {&test.back().files, &one.files}) {
      std::sort(files->begin(), files->end());
    }
  }
  return test;
}

// The classes of a split as one list, numbered as in `names`.
Result<FoundSplit> make_split(std::vector<ClassFiles> classes, const fs::path& root,
                              const std::vector<std::string>& names) {
  FoundSplit split;
  for (ClassFiles& one : classes) {
    const auto place = std::find(names.begin(), names.end(), one.name);
    if (place == names.end()) {
      return invalid_input(quoted(root / one.name) +
                           ": there is no such class among the training pictures");
    }
    split.labels.insert(split.labels.end(), one.files.size(),
                        static_cast<uint8_t>(place - names.begin()));
    std::move(one.files.begin(), one.files.end(), std::back_inserter(split.files));
  }
  split.count = static_cast<int64_t>(split.files.size());
  return split;
}

// Reads the headers of a split, in parallel, and takes unreadable files out of it.
Status inspect_headers(FoundSplit& split, int threads, FoundData& found) {
  std::vector<ImageHeader> headers(split.files.size());
  PictureResults results = for_each_picture(split.count, threads, [&](int64_t i) -> Status {
    MANTISSA_ASSIGN(headers[i], read_image_header(split.files[i]));
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
  FoundSplit good;
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
    good.files.push_back(std::move(split.files[i]));
    good.labels.push_back(split.labels[i]);
  }
  good.count = static_cast<int64_t>(good.files.size());
  split = std::move(good);
  return {};
}

// The folder beside train/ that holds the test pictures; "" if there is none.
fs::path find_test_folder(const fs::path& folder, std::vector<std::string>& notes) {
  fs::path found;
  for (const char* name : kTestFolders) {
    if (!is_folder(folder / name)) continue;
    if (found.empty()) {
      found = folder / name;
    } else {
      notes.push_back(quoted(folder / name) + " is not used: " + quoted(found) +
                      " holds the test pictures");
    }
  }
  return found;
}

Status check_classes(const fs::path& root, const std::vector<ClassFiles>& classes) {
  const auto count = static_cast<int>(classes.size());
  if (count == 0) {
    return invalid_input(quoted(root) +
                         ": no pictures in its folders; one folder per class is expected, with "
                         ".png, .jpg or .jpeg files");
  }
  if (count > kMaxClasses) {
    return invalid_input(quoted(root) + ": " + std::to_string(count) +
                         " classes (folders with pictures); at most " +
                         std::to_string(kMaxClasses) + " are supported");
  }
  return {};
}

Result<FoundData> inspect(const fs::path& folder, int threads) {
  FoundData found;
  PictureFiles others;
  const bool has_train = is_folder(folder / "train");
  const fs::path root = has_train ? folder / "train" : folder;
  const fs::path test_root = has_train ? find_test_folder(folder, found.notes) : fs::path();
  MANTISSA_ASSIGN(std::vector<ClassFiles> train, find_classes(root, others, found.notes));
  MANTISSA_RETURN_IF_ERROR(check_classes(root, train));
  for (const ClassFiles& one : train) found.class_names.push_back(one.name);
  found.named = true;
  std::vector<ClassFiles> test;
  if (test_root.empty()) {
    test = split_off(root, train);
    found.notes.push_back("there is no test folder: one picture in " + std::to_string(kTestPart) +
                          " of each class is kept for testing");
  } else {
    MANTISSA_ASSIGN(test, find_classes(test_root, others, found.notes));
  }
  if (others.others > 0) {
    found.notes.push_back("passed over " + std::to_string(others.others) +
                          " files that are not named as pictures, such as " +
                          quoted(others.first_other));
  }
  MANTISSA_ASSIGN(found.train, make_split(std::move(train), root, found.class_names));
  MANTISSA_ASSIGN(found.test, make_split(std::move(test), test_root, found.class_names));
  MANTISSA_RETURN_IF_ERROR(inspect_headers(found.train, threads, found));
  MANTISSA_RETURN_IF_ERROR(inspect_headers(found.test, threads, found));
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
                        read_image(split.files[i], static_cast<int>(options.form.channels)));
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
                                  "train/ and test/ or without these",
                                  recognises, inspect, read};

}  // namespace mantissa
