#include "data/arrays/array_files.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "data/tables/table_rows.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr std::array kInputNames = {"x", "data", "images", "image", "features", "inputs", "pixels"};
constexpr std::array kTargetNames = {"y", "labels", "label", "targets", "target", "classes"};

template <size_t n>
bool is_one_of(const std::array<const char*, n>& names, const std::string& word) {
  return std::find(names.begin(), names.end(), word) != names.end();
}

}  // namespace

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

namespace {

bool is_npy(const fs::path& path) { return path.extension() == ".npy"; }

}  // namespace

bool is_array_file(const fs::path& path) { return is_npz(path) || is_npy(path); }

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
namespace {

Result<NpyArray> read_npy(const fs::path& path) {
  MANTISSA_ASSIGN(const std::vector<std::byte> bytes, read_file(path, NpzLimits{}.bytes));
  auto array = parse_npy(bytes);
  if (!array.ok()) return invalid_input(quoted(path) + ": " + array.error().message);
  array->name = path.stem().string();
  return array;
}

// The inputs and targets of a split, with all examples.
Result<ArrayPair> read_whole_pair(const FoundSplit& split) {
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

// Whether examples have one label each.
bool has_one_label(const NpyArray& labels) {
  return labels.shape.size() == 1 || (labels.shape.size() == 2 && labels.shape[1] == 1);
}

// Keeps these examples of an array.
void keep_examples(const std::vector<int64_t>& kept, NpyArray& array) {
  const int64_t bytes = std::ssize(array.data) / std::max<int64_t>(1, array.shape[0]);
  auto to = array.data.begin();
  for (const int64_t n : kept) {
    const auto from = array.data.begin() + n * bytes;
    if (from != to) std::copy(from, from + bytes, to);
    to += bytes;
  }
  array.data.erase(to, array.data.end());
  array.shape[0] = std::ssize(kept);
}

}  // namespace

bool is_ignored(const FoundSplit& split, double label) {
  return split.ignored_label && label == static_cast<double>(*split.ignored_label);
}

void leave_out_ignored(const FoundSplit& split, NpyArray& labels, std::span<NpyArray> others) {
  if (!split.ignored_label || !has_one_label(labels)) return;
  const NumberAt number = number_reader(labels.type);
  const int64_t count = labels.shape[0];
  std::vector<int64_t> kept;
  for (int64_t n = 0; n < count; ++n) {
    if (!is_ignored(split, number(labels, n))) kept.push_back(n);
  }
  if (std::ssize(kept) == count) return;
  for (NpyArray& other : others) keep_examples(kept, other);
  keep_examples(kept, labels);
}

std::string ignored_note(const FoundSplit& split, const NpyArray& labels) {
  const NumberAt number = number_reader(labels.type);
  const int64_t count = std::ssize(labels.data) / npy_element_bytes(labels.type);
  int64_t ignored = 0;
  for (int64_t i = 0; i < count; ++i) ignored += is_ignored(split, number(labels, i));
  const std::string text = std::to_string(ignored), label = std::to_string(*split.ignored_label);
  return "'" + labels.name + "' " + shape_text(labels) + ": " +
         (has_one_label(labels) ? text + " examples have the label " + label + " and are left out"
                                : text + " labels are " + label + " and count nothing");
}

Status check_counts(const FoundSplit& split, const NpyArray& first, const NpyArray& array) {
  if (!first.shape.empty() && !array.shape.empty() && array.shape[0] == first.shape[0]) return {};
  return invalid_input(place_of(split, array) + " has not as many examples as '" + first.name +
                       "' " + shape_text(first));
}

Result<ArrayPair> read_pair(const FoundSplit& split) {
  MANTISSA_ASSIGN(ArrayPair pair, read_whole_pair(split));
  if (!split.ignored_label) return pair;
  // Before labels are left out, so that the message has the file's numbers.
  MANTISSA_RETURN_IF_ERROR(check_counts(split, pair.x, pair.y));
  leave_out_ignored(split, pair.y, {&pair.x, 1});
  return pair;
}

Status take_ignored_label(std::optional<int64_t> label, const ReadLabels& read, FoundData& found) {
  if (!label) return {};
  for (const SplitRow& row : kSplitRows) {
    FoundSplit& split = found.*row.found;
    if (split.files.empty()) continue;
    MANTISSA_ASSIGN(const NpyArray labels, read(split));
    split.ignored_label = label;
    found.notes.push_back(ignored_note(split, labels));
  }
  return {};
}

Result<ArrayPair> read_inputs(const fs::path& path) {
  ArrayPair pair;
  if (!is_npz(path)) {
    MANTISSA_ASSIGN(pair.x, read_npy(path));
    return pair;
  }
  std::vector<OtherArray> passed_over;
  MANTISSA_ASSIGN(std::vector<NpyArray> arrays, read_npz(path, {}, &passed_over));
  std::string names;
  for (NpyArray& array : arrays) {
    names += (names.empty() ? "" : ", ") + array.name;
    const auto role = role_of(array.name);
    if (!role) continue;
    NpyArray& place = role->is_input ? pair.x : pair.y;
    if (!place.name.empty()) {
      return invalid_input(quoted(path) + ": '" + place.name + "' and '" + array.name +
                           "' are both " + (role->is_input ? "inputs" : "targets") +
                           "; examples to predict are one array, x");
    }
    place = std::move(array);
  }
  if (!pair.x.name.empty()) return pair;
  return invalid_input(quoted(path) + ": there are no inputs among its arrays (" + names +
                       "); call them x");
}

namespace {

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
                           known + "); call them x and y, or x_train, y_train, x_test, y_test" +
                           (pairs[i].x.empty() ? "; arrays called as the inputs of a network are "
                                                 "read by train, plan, eval and predict with it"
                                               : ""));
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
}  // namespace

std::string unread_note(const OtherArray& array) {
  return "the array '" + array.name + "' is not read: it holds " + described(array) +
         ", and is named as no input or target";
}

Error unread_array(const fs::path& path, const OtherArray& array, bool is_input) {
  return invalid_input(quoted(path) + ": the array '" + array.name + "' holds " + described(array) +
                       "; inputs and targets are integers, float32, float64 or bool" +
                       (is_input ? "" : ", classes numbers from 0 on"));
}

Result<fs::path> archive_at(const fs::path& path) {
  if (is_npz(path)) return path;
  if (is_folder(path)) {
    MANTISSA_ASSIGN(const std::vector<std::string> names, list_names(path));
    const auto archive = std::find_if(names.begin(), names.end(),
                                      [](const std::string& name) { return is_npz(name); });
    if (archive != names.end()) return path / *archive;
  }
  return invalid_input(quoted(path) + " is no NPZ file, and holds none");
}

Result<FoundData> find_array_files(const fs::path& path) {
  if (is_npz(path)) {
    std::vector<OtherArray> others;
    MANTISSA_ASSIGN(const std::vector<NpyArray> arrays, read_npz(path, {}, &others));
    std::vector<std::string> names;
    int64_t bytes = 0;
    for (const OtherArray& other : others) {
      const auto role = role_of(other.name);
      if (role) return unread_array(path, other, role->is_input);
    }
    for (const NpyArray& array : arrays) {
      names.push_back(array.name);
      bytes += std::ssize(array.data);
    }
    MANTISSA_ASSIGN(FoundData found, find_arrays(path, std::move(names)));
    for (const OtherArray& other : others) {
      found.notes.push_back(unread_note(other));
    }
    found.array_bytes = bytes;
    return found;
  }
  if (is_npy(path)) return find_array_files(path.parent_path().empty() ? "." : path.parent_path());
  MANTISSA_ASSIGN(std::vector<std::string> names, list_names(path));
  const auto archive = std::find_if(names.begin(), names.end(),
                                    [](const std::string& name) { return is_npz(name); });
  const auto has_array = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return is_npy(name) && role_of(fs::path(name).stem().string());
  });
  if (!has_array && archive != names.end()) return find_array_files(path / *archive);
  std::erase_if(names, [](const std::string& name) { return !is_npy(name); });
  MANTISSA_ASSIGN(FoundData found, find_arrays(path, names));
  std::error_code ignored;
  for (const std::string& name : names) {
    found.array_bytes += static_cast<int64_t>(fs::file_size(path / name, ignored));
  }
  return found;
}
std::string shape_text(const NpyArray& array) {
  std::string text;
  for (const int64_t dim : array.shape) text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + text + "]";
}

std::string place_of(const FoundSplit& split, const NpyArray& array) {
  return quoted(split.file(0)) + ": '" + array.name + "' " + shape_text(array);
}

}  // namespace mantissa
