// CIFAR-10 and CIFAR-100 in their binary form: records of one label (CIFAR-100: coarse, then fine)
// and 3 x 32 x 32 bytes, one colour plane after the other.
#include <algorithm>
#include <array>
#include <sstream>

#include "base/files/atomic_file.h"
#include "base/files/text_file.h"
#include "data/datasets/readers.h"
#include "formats/gzip.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr PictureForm kForm = {32, 32, 3};
constexpr int64_t kPlane = 32 * 32;
constexpr int64_t kMaxNamesBytes = 1 << 16;

struct CifarKind {
  const char* folder;  // which the archive unpacks into
  std::vector<std::string> train_files;
  const char* test_file;
  const char* names_file;
  int classes;
  int64_t label_bytes;  // before the pixels; the last of them is the label

  int64_t record_bytes() const { return label_bytes + kForm.bytes(); }
};

const CifarKind& cifar10() {
  static const CifarKind kind = {"cifar-10-batches-bin",
                                 {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                  "data_batch_4.bin", "data_batch_5.bin"},
                                 "test_batch.bin",
                                 "batches.meta.txt",
                                 10,
                                 1};
  return kind;
}

const CifarKind& cifar100() {
  static const CifarKind kind = {"cifar-100-binary",     {"train.bin"}, "test.bin",
                                 "fine_label_names.txt", 100,           2};
  return kind;
}

// The folder itself, or the one in it that the archive unpacks into.
fs::path inner_folder(const CifarKind& kind, const fs::path& folder) {
  return is_folder(folder / kind.folder) ? folder / kind.folder : folder;
}

bool recognises(const CifarKind& kind, const fs::path& folder) {
  const fs::path inner = inner_folder(kind, folder);
  return is_file(inner / kind.train_files[0]) || is_file(inner / kind.test_file);
}

// A line for each class; numbers if there is no such file.
Result<std::vector<std::string>> read_names(const CifarKind& kind, const fs::path& path) {
  MANTISSA_ASSIGN(std::string text, read_text_file(path, kMaxNamesBytes));
  std::istringstream lines(std::move(text));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (static_cast<int>(names.size()) != kind.classes) {
    return invalid_input(quoted(path) + ": has " + std::to_string(names.size()) +
                         " names of classes, not " + std::to_string(kind.classes));
  }
  return names;
}

Result<FoundSplit> inspect_split(const CifarKind& kind, const fs::path& folder,
                                 const std::vector<std::string>& files) {
  FoundSplit split;
  split.folder = folder;
  for (const std::string& name : files) {
    const fs::path path = folder / name;
    MANTISSA_ASSIGN(const InputFile file, InputFile::open(path));
    if (file.size() == 0 || file.size() % kind.record_bytes() != 0) {
      return invalid_input(quoted(path) + ": cut short or damaged: " + std::to_string(file.size()) +
                           " bytes are not a whole number of " +
                           std::to_string(kind.record_bytes()) + "-byte records");
    }
    split.count += file.size() / kind.record_bytes();
    split.files.push_back(name);
  }
  return split;
}

Result<FoundData> inspect(const CifarKind& kind, const fs::path& folder) {
  const fs::path inner = inner_folder(kind, folder);
  FoundData found;
  MANTISSA_ASSIGN(found.train, inspect_split(kind, inner, kind.train_files));
  MANTISSA_ASSIGN(found.test, inspect_split(kind, inner, {kind.test_file}));
  found.smallest = found.largest = {kForm.height, kForm.width};
  found.channels = kForm.channels;
  found.target.names = numbered_classes(kind.classes);
  found.target.named = is_file(inner / kind.names_file);
  if (found.target.named) {
    MANTISSA_ASSIGN(found.target.names, read_names(kind, inner / kind.names_file));
  }
  return found;
}

// Reads all records of a file, plane after plane, as pixels.
Status read_batch(const CifarKind& kind, const fs::path& path, ExampleSet& set) {
  MANTISSA_ASSIGN(ByteReader reader, ByteReader::open(path));
  std::vector<uint8_t> record(static_cast<size_t>(kind.record_bytes()));
  std::vector<uint8_t> pixels(static_cast<size_t>(kForm.bytes()));
  for (int64_t i = 0; reader.most_bytes_left() > 0; ++i) {
    MANTISSA_RETURN_IF_ERROR(reader.read_exactly(record));
    const uint8_t label = record[static_cast<size_t>(kind.label_bytes - 1)];
    if (label >= kind.classes) {
      return reader.error("label " + std::to_string(label) + " in record " + std::to_string(i) +
                          ", but there are " + std::to_string(kind.classes) + " classes");
    }
    const uint8_t* planes = record.data() + kind.label_bytes;
    for (int64_t at = 0; at < kPlane; ++at) {
      for (int64_t c = 0; c < kForm.channels; ++c) {
        pixels[static_cast<size_t>(at * kForm.channels + c)] = planes[c * kPlane + at];
      }
    }
    append_picture(pixels.data(), kForm, label, set);
  }
  return {};
}

Result<ExampleSet> read(const CifarKind& kind, const FoundSplit& split,
                        const ReadOptions& options) {
  MANTISSA_ASSIGN(ExampleSet set, empty_set(split.count, options.form));
  for (size_t i = 0; i < split.files.size(); ++i) {
    MANTISSA_RETURN_IF_ERROR(read_batch(kind, split.file(i), set));
  }
  if (set.count != split.count) {
    return invalid_input(quoted(split.file(0)) + ": changed while it was read");
  }
  return set;
}

// The Python versions are pickles, which are programs: they are not read.
struct PythonKind {
  const char* folder;                // which the archive unpacks into
  std::array<const char*, 3> files;  // by which it is known
  const char* instead;
};

constexpr PythonKind kPythonKinds[] = {
    {"cifar-10-batches-py",
     {"data_batch_1", "data_batch_5", "test_batch"},
     "cifar-10-binary.tar.gz"},
    {"cifar-100-python", {"train", "test", "meta"}, "cifar-100-binary.tar.gz"}};

const PythonKind* find_python(const fs::path& folder) {
  for (const PythonKind& kind : kPythonKinds) {
    const fs::path inner = is_folder(folder / kind.folder) ? folder / kind.folder : folder;
    if (std::all_of(kind.files.begin(), kind.files.end(),
                    [&](const char* name) { return is_file(inner / name); })) {
      return &kind;
    }
  }
  return nullptr;
}

Result<FoundData> refuse_python(const fs::path& folder) {
  const PythonKind* kind = find_python(folder);
  return invalid_input(quoted(folder) +
                       ": the Python version of CIFAR is not read; get the binary version, " +
                       (kind == nullptr ? "" : kind->instead) +
                       ", from https://www.cs.toronto.edu/~kriz/cifar.html");
}

}  // namespace

const DataReader kCifar10Reader = {
    "CIFAR-10, binary", "data_batch_1.bin to data_batch_5.bin and test_batch.bin",
    [](const fs::path& folder) { return recognises(cifar10(), folder); },
    [](const fs::path& folder, const DataOptions&) { return inspect(cifar10(), folder); },
    [](const FoundData&, const FoundSplit& split, const ReadOptions& options) {
      return read(cifar10(), split, options);
    }};

const DataReader kCifar100Reader = {
    "CIFAR-100, binary", "train.bin and test.bin",
    [](const fs::path& folder) { return recognises(cifar100(), folder); },
    [](const fs::path& folder, const DataOptions&) { return inspect(cifar100(), folder); },
    [](const FoundData&, const FoundSplit& split, const ReadOptions& options) {
      return read(cifar100(), split, options);
    }};

const DataReader kCifarPythonReader = {
    "CIFAR, Python version", nullptr,
    [](const fs::path& folder) { return find_python(folder) != nullptr; },
    [](const fs::path& folder, const DataOptions&) { return refuse_python(folder); }, nullptr};

}  // namespace mantissa
