// Pictures in one folder, with a file that names the split and the class of each.
#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <utility>

#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "base/hash.h"
#include "data/datasets/class_folders.h"
#include "data/readers/listed_pictures.h"
#include "data/tables/table_rows.h"
#include "formats/csv.h"
#include "formats/pictures/image.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

constexpr std::array kFileNames = {"file", "filename", "file_name",  "filepath",
                                   "path", "image",    "image_path", "image_id",
                                   "img",  "picture",  "img_path",   "file_path"};
constexpr std::array kClassNames = {"class",    "label",      "labels", "target",
                                    "category", "class_name", "y"};
constexpr std::array kSplitNames = {"split", "set", "subset", "partition", "dataset"};
constexpr size_t kListTestPart = 10;  // one picture in this many, if no list has test pictures

template <size_t n>
bool is_one_of(const std::array<const char*, n>& names, std::string word) {
  for (char& c : word) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return std::find(names.begin(), names.end(), word) != names.end();
}

// The columns of the fields in a list's rows; -1: none.
struct ListColumns {
  int file = 0, label = -1, split = -1;
  bool has_names = false;
};

ListColumns columns_of(std::span<const std::string> first) {
  ListColumns columns;
  const auto count = static_cast<int>(first.size());
  for (int i = 0; i < count; ++i) {
    if (!is_one_of(kFileNames, first[i])) continue;
    columns.file = i;
    columns.has_names = true;
  }
  for (int i = 0; i < count; ++i) {
    if (i == columns.file) continue;
    const bool is_split =
        columns.has_names ? is_one_of(kSplitNames, first[i]) : split_of(first[i]).has_value();
    if (is_split && columns.split < 0) columns.split = i;
    const bool is_class = !columns.has_names || count == 2 || is_one_of(kClassNames, first[i]);
    if (!is_split && is_class && columns.label < 0) columns.label = i;
  }
  return columns;
}

// The fields of a list's row. A line "FILE CLASS" has two: lists are often written so.
std::vector<std::string> fields_of(std::span<const std::string_view> row) {
  std::vector<std::string> fields;
  for (std::string_view text : row) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    fields.emplace_back(text);
  }
  const size_t space = fields.empty() ? std::string::npos : fields[0].rfind(' ');
  if (fields.size() != 1 || space == std::string::npos || has_image_name(fields[0])) return fields;
  return {fields[0].substr(0, space), fields[0].substr(space + 1)};
}

// The folder of a list's files: the list may leave out a folder and the ending of names.
struct FilePlace {
  std::string before, behind;
  std::string path(const std::string& file) const { return before + file + behind; }
};

std::optional<FilePlace> find_place(const fs::path& folder, const std::string& list,
                                    const std::string& file) {
  if (file.empty()) return std::nullopt;
  const std::string stem = fs::path(list).stem().string();
  for (const std::string& before : {std::string(), std::string("images/"), stem + "/"}) {
    for (const char* behind : {"", ".png", ".jpg", ".jpeg"}) {
      const FilePlace place{before, behind};
      const std::string path = place.path(file);
      const auto kind = path_kind(folder / path);
      if (has_image_name(path) && kind.ok() && *kind == PathKind::kFile) return place;
    }
  }
  return std::nullopt;
}

struct ListedPicture {
  std::string file, label;
  std::optional<Split> split;
};

// A list that names pictures.
struct PictureList {
  std::string name;
  ListColumns columns;
  FilePlace place;
};

bool is_list_name(const std::string& name) {
  return name.ends_with(".txt") || name.ends_with(".csv") || name.ends_with(".tsv") ||
         name.ends_with(".lst");
}

bool says_split(const PictureList& list) {
  return list.columns.split >= 0 || split_of(fs::path(list.name).stem().string());
}

// The list, if the file is one: it says splits or classes, and its first picture is there.
std::optional<PictureList> recognise_list(const fs::path& folder, const std::string& name) {
  if (!InputFile::open(folder / name).ok()) return std::nullopt;  // a pipe would block
  std::ifstream file(folder / name, std::ios::binary);
  const std::string quoted_name = quoted(folder / name);
  CsvReader reader(file, quoted_name, {.row_bytes = 65536});
  const auto row = reader.next();
  if (!row.ok() || row->empty()) return std::nullopt;
  std::vector<std::string> fields = fields_of(*row);
  PictureList list{name, columns_of(fields), {}};
  if (list.columns.has_names) {
    const auto second = reader.next();
    if (!second.ok() || second->size() <= static_cast<size_t>(list.columns.file)) {
      return std::nullopt;
    }
    fields = fields_of(*second);
  }
  const auto place = find_place(folder, name, fields[static_cast<size_t>(list.columns.file)]);
  if (!place) return std::nullopt;
  list.place = *place;
  if (!says_split(list) && list.columns.label < 0) return std::nullopt;
  return list;
}

std::vector<PictureList> find_lists(const fs::path& folder) {
  std::vector<PictureList> lists;
  const auto names = list_names(folder);
  if (!names.ok()) return lists;
  for (const std::string& name : *names) {
    if (!is_list_name(name) || is_folder(folder / name)) continue;
    auto list = recognise_list(folder, name);
    if (list) lists.push_back(std::move(*list));
  }
  return lists;
}

bool is_picture_list(const fs::path& folder) { return !find_lists(folder).empty(); }

// The class that a path says: the folder that holds the file.
std::string folder_of(const std::string& file) { return fs::path(file).parent_path().filename(); }

Status read_list(const fs::path& folder, const PictureList& list,
                 std::vector<ListedPicture>& pictures) {
  const std::string name = quoted(folder / list.name);
  std::ifstream file(folder / list.name, std::ios::binary);
  CsvReader reader(file, name);
  const auto split_of_list = split_of(fs::path(list.name).stem().string());
  for (bool is_first = true;; is_first = false) {
    MANTISSA_ASSIGN(const auto row, reader.next());
    if (row.empty()) return {};
    if (is_first && list.columns.has_names) continue;
    const std::vector<std::string> fields = fields_of(row);
    const auto wrong = [&](const std::string& fault) {
      return invalid_input(name + ", line " + std::to_string(reader.line()) + ": " + fault);
    };
    const auto field = [&](int column) {
      return column >= 0 && column < std::ssize(fields) ? fields[static_cast<size_t>(column)] : "";
    };
    ListedPicture one{list.place.path(field(list.columns.file)), field(list.columns.label),
                      split_of_list};
    if (list.columns.split >= 0) one.split = split_of(field(list.columns.split));
    if (list.columns.split >= 0 && !one.split) {
      return wrong("'" + field(list.columns.split).substr(0, 40) +
                   "' is no split; there are train, valid and test");
    }
    if (list.columns.label < 0) one.label = folder_of(one.file);
    if (one.label.empty()) return wrong("there is no class, and no folder that is named as one");
    one.label = category_of(read_field(one.label));
    pictures.push_back(std::move(one));
  }
}

// Lists for splits are read before one for all pictures.
std::vector<PictureList> wanted_lists(std::vector<PictureList> lists, FoundData& found) {
  const bool any = std::any_of(lists.begin(), lists.end(), says_split);
  std::vector<PictureList> wanted;
  for (PictureList& list : lists) {
    if (any ? says_split(list) : wanted.empty()) {
      wanted.push_back(std::move(list));
    } else {
      found.notes.push_back("'" + list.name + "' is not read: other lists say the splits");
    }
  }
  return wanted;
}

// The classes' numbers: whole numbers in their order, other names byte by byte.
std::map<std::string, Label> number_classes(const std::vector<ListedPicture>& pictures,
                                            std::vector<std::string>& names) {
  std::map<std::string, Label> numbers;
  for (const ListedPicture& one : pictures) {
    if (one.split.value_or(Split::kTrain) == Split::kTrain) numbers.emplace(one.label, Label{0});
  }
  for (const auto& [name, number] : numbers) names.push_back(name);
  const bool whole = std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return read_field(name).kind == FieldKind::kWhole;
  });
  if (whole) {
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      return read_field(a).number < read_field(b).number;
    });
  }
  for (size_t i = 0; i < names.size() && i < kMaxClasses; ++i) {
    numbers[names[i]] = static_cast<Label>(i);
  }
  return numbers;
}

// Without test pictures: of each class those with the smallest hash of their path.
void keep_test_pictures(std::vector<ListedPicture>& pictures) {
  std::map<std::string, std::vector<std::pair<std::string, ListedPicture*>>> classes;
  for (ListedPicture& one : pictures) {
    if (one.split == Split::kTrain) classes[one.label].emplace_back(sha256_hex(one.file), &one);
  }
  for (auto& [label, keyed] : classes) {
    std::sort(keyed.begin(), keyed.end());
    const size_t count = keyed.size() < 2 ? 0 : std::max<size_t>(1, keyed.size() / kListTestPart);
    for (size_t i = 0; i < count; ++i) keyed[i].second->split = Split::kTest;
  }
}

Status take_pictures(const fs::path& folder, std::vector<ListedPicture> pictures,
                     FoundData& found) {
  const std::map<std::string, Label> numbers = number_classes(pictures, found.target.names);
  if (found.target.names.size() > kMaxClasses) {
    return invalid_input(quoted(folder) + ": has more than " + std::to_string(kMaxClasses) +
                         " classes");
  }
  FoundSplit* const splits[] = {&found.train, &found.validation, &found.test};
  for (ListedPicture& one : pictures) {
    FoundSplit& split = *splits[static_cast<size_t>(*one.split)];
    const auto number = numbers.find(one.label);
    if (number == numbers.end()) {
      return invalid_input(quoted(folder / one.file) + " is of the class '" + one.label +
                           "', of which there are no training pictures");
    }
    split.files.push_back(std::move(one.file));
    split.labels.push_back(number->second);
  }
  for (FoundSplit* split : splits) {
    split->folder = folder;
    split->count = std::ssize(split->files);
  }
  return {};
}

// Lists that say nothing of a split are of training pictures.
void complete_splits(std::vector<ListedPicture>& pictures, FoundData& found) {
  const auto has = [&](Split split) {
    return std::any_of(pictures.begin(), pictures.end(),
                       [&](const ListedPicture& one) { return one.split == split; });
  };
  for (ListedPicture& one : pictures) one.split = one.split.value_or(Split::kTrain);
  if (has(Split::kTest)) return;
  if (has(Split::kValidation)) {
    for (ListedPicture& one : pictures) {
      if (one.split == Split::kValidation) one.split = Split::kTest;
    }
    found.notes.emplace_back("the lists name no test pictures: those for validation are taken");
    return;
  }
  keep_test_pictures(pictures);
  found.notes.emplace_back("the lists name no test pictures: one in ten of each class is kept");
}

Result<FoundData> inspect_picture_list(const fs::path& folder, const DataOptions& options) {
  FoundData found;
  found.target.named = true;
  std::vector<ListedPicture> pictures;
  for (const PictureList& list : wanted_lists(find_lists(folder), found)) {
    MANTISSA_RETURN_IF_ERROR(read_list(folder, list, pictures));
  }
  complete_splits(pictures, found);
  MANTISSA_RETURN_IF_ERROR(take_pictures(folder, std::move(pictures), found));
  for (const SplitRow& row : kSplitRows) {
    MANTISSA_RETURN_IF_ERROR(inspect_headers(found.*row.found, options.threads, found));
  }
  return found;
}

}  // namespace

const DataReader kListReader = {"lists of pictures",
                                "a file of lines FILE,SPLIT,CLASS, or train.txt and test.txt, "
                                "beside the pictures that they name",
                                is_picture_list, inspect_picture_list, read_listed};

}  // namespace mantissa
