// Data sets of NumPy's arrays: an NPZ file with inputs and targets, or a folder with x.npy and
// y.npy, each of all rows or one for each split.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "data/datasets/class_folders.h"
#include "data/readers/array_files.h"
#include "data/readers/shaped_arrays.h"
#include "data/readers/table_reader.h"
#include "formats/arrays/npz.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr std::array kInputNames = {"x", "data", "images", "image", "features", "inputs", "pixels"};
constexpr std::array kTargetNames = {"y", "labels", "label", "targets", "target", "classes"};

// Whether an array has inputs or targets, and of which split.
struct ArrayRole {
  bool is_input = false;
  std::optional<Split> split;  // nothing: of all rows
};

template <size_t n>
bool is_one_of(const std::array<const char*, n>& names, const std::string& word) {
  return std::find(names.begin(), names.end(), word) != names.end();
}

// "x_train", "train_labels", "xtest", "Images": nothing for other names.
std::optional<ArrayRole> role_of(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (c == '_' || c == '-' || c == '.' || c == ' ') {
      words.emplace_back();
    } else {
      words.back() += static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
  }
  if (words.size() == 1 && words[0].size() > 1 && split_of(words[0].substr(1))) {
    words = {words[0].substr(0, 1), words[0].substr(1)};
  }
  if (words.size() > 2) return std::nullopt;
  for (size_t at = 0; at < words.size(); ++at) {
    const bool is_input = is_one_of(kInputNames, words[at]);
    if (!is_input && !is_one_of(kTargetNames, words[at])) continue;
    if (words.size() == 1) return ArrayRole{is_input, std::nullopt};
    const auto split = split_of(words[1 - at]);
    if (split) return ArrayRole{is_input, split};
  }
  return std::nullopt;
}

bool is_npz(const fs::path& path) { return path.extension() == ".npz"; }
bool is_npy(const fs::path& path) { return path.extension() == ".npy"; }
bool recognises_file(const fs::path& path) { return is_npz(path) || is_npy(path); }

// A folder with an array of inputs, or with one NPZ file.
bool is_array_folder(const fs::path& folder) {
  const auto names = list_names(folder);
  if (!names.ok()) return false;
  int64_t archives = 0;
  for (const std::string& name : *names) {
    archives += is_npz(name);
    if (!is_npy(name)) continue;
    const auto role = role_of(fs::path(name).stem().string());
    if (role && role->is_input) return true;
  }
  return archives == 1;
}

Result<NpyArray> read_npy(const fs::path& path) {
  MANTISSA_ASSIGN(const std::vector<std::byte> bytes, read_file(path, NpzLimits{}.bytes));
  auto array = parse_npy(bytes);
  if (!array.ok()) return invalid_input(quoted(path) + ": " + array.error().message);
  array->name = path.stem().string();
  return array;
}

}  // namespace

Result<ArrayPair> read_pair(const FoundSplit& split) {
  ArrayPair pair;
  if (!is_npz(split.files[0])) {
    MANTISSA_ASSIGN(pair.x, read_npy(split.file(0)));
    MANTISSA_ASSIGN(pair.y, read_npy(split.file(1)));
    return pair;
  }
  std::vector<OtherArray> passed_over;
  MANTISSA_ASSIGN(std::vector<NpyArray> arrays, read_npz(split.file(0), {}, &passed_over));
  for (NpyArray& array : arrays) {
    if (array.name == split.files[1]) pair.x = std::move(array);
    if (array.name == split.files[2]) pair.y = std::move(array);
  }
  return pair;
}

namespace {

Result<std::unique_ptr<TableRows>> open(const FoundSplit& split, const TableFormat& format) {
  MANTISSA_ASSIGN(ArrayPair pair, read_pair(split));
  return array_rows(quoted(split.file(0)), std::move(pair.x), std::move(pair.y), format);
}

// Pairs inputs and targets by split.
Status pair_arrays(const fs::path& path, const std::vector<std::string>& names, FoundData& found) {
  struct Names {
    std::string x, y;
  };
  std::array<Names, 4> pairs;  // of all rows, train, validation, test
  std::string known;
  for (const std::string& name : names) {
    known += (known.empty() ? "" : ", ") + name;
    const auto role = role_of(is_npy(name) ? fs::path(name).stem().string() : name);
    if (!role) {
      found.notes.push_back("the array '" + name +
                            "' is not read: it is named as no input or target");
      continue;
    }
    Names& pair = pairs[role->split ? 1 + static_cast<size_t>(*role->split) : 0];
    std::string& place = role->is_input ? pair.x : pair.y;
    if (!place.empty()) {
      return invalid_input(quoted(path) + ": '" + place + "' and '" + name +
                           "' are named as the same; leave one of them out");
    }
    place = name;
  }
  if (!pairs[0].x.empty() && pairs[1].x.empty()) pairs[1] = pairs[0];
  FoundSplit* const splits[] = {nullptr, &found.train, &found.validation, &found.test};
  for (size_t i = 1; i < pairs.size(); ++i) {
    if (pairs[i].x.empty() && pairs[i].y.empty() && i > 1) continue;
    if (pairs[i].x.empty() || pairs[i].y.empty()) {
      return invalid_input(quoted(path) + ": there are no " + kSplitRows[i - 1].name + " " +
                           (pairs[i].x.empty() ? "inputs" : "targets") + " among its arrays (" +
                           known + "); call them x and y, or x_train, y_train, x_test, y_test");
    }
    splits[i]->files = {pairs[i].x, pairs[i].y};
  }
  return {};
}

// The files that hold arrays of each split; an archive names its arrays itself.
Result<FoundData> find_arrays(const fs::path& path, std::vector<std::string> names) {
  FoundData found;
  const bool is_archive = is_npz(path);
  MANTISSA_RETURN_IF_ERROR(pair_arrays(path, names, found));
  for (const SplitRow& row : kSplitRows) {
    FoundSplit& split = found.*row.found;
    if (split.files.empty()) continue;
    split.folder = is_archive ? path.parent_path() : path;
    if (is_archive) split.files.insert(split.files.begin(), path.filename().string());
  }
  return found;
}

bool are_pictures(const NpyArray& x) {
  return x.type == NpyType::kUint8 && (x.shape.size() == 3 || x.shape.size() == 4);
}

}  // namespace

std::string shape_text(const NpyArray& array) {
  std::string text;
  for (const int64_t dim : array.shape) text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + text + "]";
}

namespace {

// How many labels pictures have each, [N, labels]; 0: they have a class, [N].
int64_t labels_each(const NpyArray& y) {
  return y.shape.size() == 2 && y.shape[1] > 1 ? y.shape[1] : 0;
}

// The labels of a split, 0 or 1: [pictures][labels].
Result<std::vector<Label>> several_labels(const FoundSplit& split, ArrayPair& pair) {
  const std::string name = quoted(split.file(0)) + ": '" + pair.y.name + "' ";
  const int64_t pictures = pair.y.shape[0];
  if (pictures != pair.x.shape[0]) {
    return invalid_input(quoted(split.file(0)) + ": '" + pair.x.name + "' has " +
                         std::to_string(pair.x.shape[0]) + " pictures, and there are labels for " +
                         std::to_string(pictures));
  }
  MANTISSA_ASSIGN(const auto rows, array_rows(quoted(split.file(0)), pair.y, {}, {}));
  std::vector<Label> labels;
  while (true) {
    MANTISSA_ASSIGN(const auto row, rows->next());
    if (row.empty()) break;
    for (const TableField& field : row) {
      if (field.is_number() && (field.number == 0 || field.number == 1)) {
        labels.push_back(static_cast<Label>(field.number));
        continue;
      }
      return invalid_input(name + shape_text(pair.y) +
                           " of pictures has a label that is neither 0 nor 1");
    }
  }
  return labels;
}

// The labels of a split, whole numbers below kMaxClasses.
Result<std::vector<Label>> labels_of(const FoundSplit& split, ArrayPair& pair) {
  const std::string name = quoted(split.file(0)) + ": '" + pair.y.name + "'";
  MANTISSA_ASSIGN(const auto rows, array_rows(quoted(split.file(0)), std::move(pair.y), {}));
  std::vector<Label> labels;
  while (true) {
    MANTISSA_ASSIGN(const auto row, rows->next());
    if (row.empty()) break;
    const double label = row[0].number;
    if (row.size() != 1 || row[0].kind != FieldKind::kWhole || label < 0 || label >= kMaxClasses) {
      return invalid_input(name + " of pictures must be a whole number from 0 to " +
                           std::to_string(kMaxClasses - 1) + " for each");
    }
    labels.push_back(static_cast<Label>(label));
  }
  return labels;
}

Result<PictureForm> form_of(const FoundSplit& split, const NpyArray& x) {
  const bool has_channels = x.shape.size() == 4;
  const PictureForm form = {x.shape[1], x.shape[2], has_channels ? x.shape[3] : 1};
  const bool fits =
      form.height >= 1 && form.width >= 1 && (form.channels == 1 || form.channels == 3);
  if (fits && form.height <= 16384 && form.width <= 16384) return form;
  return invalid_input(quoted(split.file(0)) + ": '" + x.name + "' " + shape_text(x) +
                       " is not [pictures, height, width] or [pictures, height, width, channels] "
                       "with 1 or 3 channels, up to 16384 a side; a network whose input 'numbers' "
                       "is [height, width, channels] takes others");
}

// Labels of pixels: whole numbers below kMaxClasses, [pictures, height, width].
Status inspect_labels_of_pixels(const FoundSplit& split, const ArrayPair& pair,
                                const PictureForm& form, FoundData& found) {
  const NpyArray& y = pair.y;
  const std::string name = quoted(split.file(0)) + ": '" + y.name + "' " + shape_text(y);
  if (y.shape != std::vector<int64_t>{pair.x.shape[0], form.height, form.width}) {
    return invalid_input(name + " has not one label for each pixel of '" + pair.x.name + "' " +
                         shape_text(pair.x));
  }
  const Shape shape{form.height, form.width};
  if (&split != &found.train && found.label_shape != shape) {
    return invalid_input(name + " has labels of pixels, and the training pictures have one each");
  }
  found.label_shape = shape;
  const NumberAt number = number_reader(y.type);
  for (int64_t i = 0; i < y.shape[0] * shape.count(); ++i) {
    const double label = number(y, i);
    if (label < 0 || label >= kMaxClasses || label != std::floor(label)) {
      return invalid_input(name + " has a label that is no whole number from 0 to " +
                           std::to_string(kMaxClasses - 1));
    }
    found.largest_label = std::max(found.largest_label, static_cast<Label>(label));
  }
  return {};
}

// Takes the facts about pictures from a split's arrays.
Status inspect_pictures(FoundSplit& split, FoundData& found) {
  MANTISSA_ASSIGN(ArrayPair pair, read_pair(split));
  if (!are_pictures(pair.x)) {
    return invalid_input(quoted(split.file(0)) + ": '" + pair.x.name + "' " + shape_text(pair.x) +
                         " is not of pictures as the training array is");
  }
  MANTISSA_ASSIGN(const PictureForm form, form_of(split, pair.x));
  const PictureSize size = {form.height, form.width};
  if (found.channels == 0) found.smallest = found.largest = size, found.channels = form.channels;
  if (found.largest != size || found.channels != form.channels) {
    return invalid_input(quoted(split.file(0)) + ": '" + pair.x.name + "' " + shape_text(pair.x) +
                         " differs in size from the training pictures");
  }
  split.count = pair.x.shape[0];
  if (pair.y.shape.size() == 3) return inspect_labels_of_pixels(split, pair, form, found);
  if (found.label_shape.rank > 0) {
    return invalid_input(quoted(split.file(0)) + ": '" + pair.y.name + "' " + shape_text(pair.y) +
                         " has no label for each pixel, as the training array has");
  }
  if (const int64_t labels = labels_each(pair.y); labels > 0) {
    const auto known = std::ssize(found.target.names);
    if (known > 0 && (known != labels || !found.target.has_labels())) {
      return invalid_input(quoted(split.file(0)) + ": '" + pair.y.name + "' " +
                           shape_text(pair.y) + " has other labels than the training pictures");
    }
    found.target = {.kind = TargetKind::kLabels, .names = numbered_classes(static_cast<int>(labels))};
    const auto read = several_labels(split, pair);
    return read.ok() ? Status() : read.error();
  }
  MANTISSA_ASSIGN(split.labels, labels_of(split, pair));
  if (std::ssize(split.labels) == split.count) return {};
  return invalid_input(quoted(split.file(0)) + ": '" + pair.x.name + "' has " +
                       std::to_string(split.count) + " pictures, and there are " +
                       std::to_string(split.labels.size()) + " labels");
}

// Without test arrays: one picture of five is for testing. The reader finds them by their part.
void keep_test_pictures(FoundData& found) {
  FoundSplit& train = found.train;
  const std::vector<Label> all = std::exchange(train.labels, {});
  const int64_t pictures = std::exchange(train.count, 0);
  found.test = train;
  found.test.part = RowPart::kTest;
  train.part = RowPart::kTrain;
  for (int64_t i = 0; i < pictures; ++i) {
    FoundSplit& split = is_of_part(i, RowPart::kTest) ? found.test : train;
    ++split.count;
    if (!all.empty()) split.labels.push_back(all[static_cast<size_t>(i)]);
  }
  found.notes.push_back("there are no test pictures: one in five is kept for testing");
}

Status inspect_all_pictures(FoundData& found) {
  for (const SplitRow& row : kSplitRows) {
    if (!(found.*row.found).files.empty()) {
      MANTISSA_RETURN_IF_ERROR(inspect_pictures(found.*row.found, found));
    }
  }
  if (found.test.files.empty() && !found.validation.files.empty()) {
    found.test = std::exchange(found.validation, {});
    found.notes.push_back("there are no test pictures: those for validation are taken for them");
  }
  if (found.test.files.empty()) keep_test_pictures(found);
  if (found.target.has_labels()) return {};
  Label largest = found.largest_label;
  for (const SplitRow& row : kSplitRows) {
    for (const Label label : (found.*row.found).labels) largest = std::max(largest, label);
  }
  found.target.names = numbered_classes(int{largest} + 1);
  return {};
}

// The contents of an array of another type: "texts (<U5)".
std::string described(const OtherArray& array) {
  const std::string& type = array.type;
  const char kind = type.size() > 1 ? type[1] : '\0';
  const std::string what = type.empty()                 ? "records"
                           : kind == 'U' || kind == 'S' ? "texts"
                           : kind == 'O'                ? "Python objects"
                           : kind == 'M' || kind == 'm' ? "times"
                                                        : "numbers that are not read";
  return what + (type.empty() ? "" : " (" + type + ")");
}

Error unread_array(const fs::path& path, const OtherArray& array) {
  return invalid_input(quoted(path) + ": the array '" + array.name + "' holds " + described(array) +
                       "; inputs and targets are integers, float32, float64 or bool" +
                       (role_of(array.name)->is_input ? "" : ", classes numbers from 0 on"));
}

// If a file is named, or a folder with one archive: the file with the arrays.
Result<FoundData> find_files(const fs::path& path) {
  if (is_npz(path)) {
    std::vector<OtherArray> others;
    MANTISSA_ASSIGN(const std::vector<NpyArray> arrays, read_npz(path, {}, &others));
    std::vector<std::string> names;
    int64_t bytes = 0;
    for (const OtherArray& other : others) {
      if (role_of(other.name)) return unread_array(path, other);
    }
    for (const NpyArray& array : arrays) {
      names.push_back(array.name);
      bytes += std::ssize(array.data);
    }
    MANTISSA_ASSIGN(FoundData found, find_arrays(path, std::move(names)));
    for (const OtherArray& other : others) {
      found.notes.push_back("the array '" + other.name + "' is not read: it holds " +
                            described(other) + ", and is named as no input or target");
    }
    found.array_bytes = bytes;
    return found;
  }
  if (is_npy(path)) return find_files(path.parent_path().empty() ? "." : path.parent_path());
  MANTISSA_ASSIGN(std::vector<std::string> names, list_names(path));
  const auto archive = std::find_if(names.begin(), names.end(),
                                    [](const std::string& name) { return is_npz(name); });
  const auto has_array = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return is_npy(name) && role_of(fs::path(name).stem().string());
  });
  if (!has_array && archive != names.end()) return find_files(path / *archive);
  std::erase_if(names, [](const std::string& name) { return !is_npy(name); });
  MANTISSA_ASSIGN(FoundData found, find_arrays(path, names));
  std::error_code ignored;
  for (const std::string& name : names) {
    found.array_bytes += static_cast<int64_t>(fs::file_size(path / name, ignored));
  }
  return found;
}

Result<FoundData> inspect_arrays(const fs::path& path, const DataOptions& options) {
  MANTISSA_ASSIGN(FoundData found, find_files(path));
  if (wants_shape(options)) {
    MANTISSA_RETURN_IF_ERROR(inspect_shaped(options, found));
    return found;
  }
  bool pictures = false;
  {
    MANTISSA_ASSIGN(const ArrayPair pair, read_pair(found.train));
    pictures = are_pictures(pair.x);
  }
  MANTISSA_RETURN_IF_ERROR(pictures ? inspect_all_pictures(found)
                                    : inspect_table(open, options, found));
  return found;
}

// In place of the picture's one label.
void append_labels_of_pixels(const NpyArray& y, int64_t picture, int64_t count, ExampleSet& set) {
  auto& labels = set.find(kLabelTensor)->as<Label>();
  const NumberAt number = number_reader(y.type);
  labels.pop_back();
  for (int64_t i = 0; i < count; ++i) {
    labels.push_back(static_cast<Label>(number(y, picture * count + i)));
  }
}

Result<ExampleSet> read_arrays(const FoundData& found, const FoundSplit& split,
                               const ReadOptions& options) {
  if (found.table && found.table->is_shaped()) return read_shaped(found, split, options);
  if (found.table) return read_table(open, found, split, options);
  MANTISSA_ASSIGN(ArrayPair pair, read_pair(split));
  MANTISSA_ASSIGN(const PictureForm stored, form_of(split, pair.x));
  MANTISSA_ASSIGN(ExampleSet set, empty_set(split.count, options.form));
  std::vector<Label> several;
  const int64_t each = labels_each(pair.y);
  set.find(kLabelTensor)->shape = each > 0 ? Shape{each} : found.label_shape;
  if (each > 0) {
    MANTISSA_ASSIGN(several, several_labels(split, pair));
  }
  if (found.label_shape.rank > 0 && options.form != stored) {
    return invalid_input(quoted(split.file(0)) + ": pictures with labels of pixels stay as they "
                         "are: neither --input-size nor other channels are possible");
  }
  const auto* pixels = reinterpret_cast<const uint8_t*>(pair.x.data.data());
  const int64_t all = pair.x.shape[0];
  for (int64_t i = 0; i < all && set.count < split.count; ++i) {
    if (!is_of_part(i, split.part)) continue;
    if (found.label_shape.rank > 0) {
      append_picture(pixels + i * stored.bytes(), stored, 0, set);
      append_labels_of_pixels(pair.y, i, found.label_shape.count(), set);
      continue;
    }
    const auto first = several.begin() + i * each;
    append_picture(pixels + i * stored.bytes(), stored,
                   each > 0 ? *first : split.labels[set.count], set);
    if (each == 0) continue;
    auto& labels = set.find(kLabelTensor)->as<Label>();
    labels.insert(labels.end(), first + 1, first + each);
  }
  if (set.count == split.count) return set;
  return invalid_input(quoted(split.file(0)) + ": changed while it was read");
}

}  // namespace

const DataReader kArrayReader = {"NumPy arrays",
                                 "NAME.npz with x and y, or x_train, y_train, x_test and y_test; "
                                 "or a folder with x.npy and y.npy",
                                 is_array_folder,
                                 inspect_arrays,
                                 read_arrays,
                                 recognises_file};

}  // namespace mantissa
