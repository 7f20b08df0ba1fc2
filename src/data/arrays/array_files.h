// Files of arrays: an NPZ file, or a folder of NPY files. The names of the arrays tell inputs from
// targets, and the split of each.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/datasets/class_folders.h"
#include "data/datasets/readers.h"
#include "formats/arrays/npz.h"

namespace mantissa {

// Whether an array has inputs or targets, and of which split.
struct ArrayRole {
  bool is_input = false;
  std::optional<Split> split = {};  // nothing: of all rows
};
// "x_train", "train_labels", "xtest", "Images": nothing for other names.
std::optional<ArrayRole> role_of(const std::string& name);

bool is_npz(const std::filesystem::path& path);
bool is_array_file(const std::filesystem::path& path);
// A folder with an array of inputs, or with one NPZ file.
bool is_array_folder(const std::filesystem::path& folder);

// The file itself, or the one NPZ file in a folder; an error if there is none.
Result<std::filesystem::path> archive_at(const std::filesystem::path& path);

// The files and arrays of each split, an input and a target. If a file is named, or a folder with
// one archive: the file with the arrays.
Result<FoundData> find_array_files(const std::filesystem::path& path);

// Texts or objects in place of numbers: "the array 'y' holds texts (<U5), ...".
Error unread_array(const std::filesystem::path& path, const OtherArray& array, bool is_input);
// The note about an array of another type that is not read.
std::string unread_note(const OtherArray& array);

// The inputs and targets of a split. Its files: an NPZ file and the names of two arrays in it, or
// two NPY files.
struct ArrayPair {
  NpyArray x, y;
};
// Without the examples whose one label the split ignores. Then an error if the arrays have not as
// many examples as each other.
Result<ArrayPair> read_pair(const FoundSplit& split);

bool is_ignored(const FoundSplit& split, double label);

// An error if the array has not as many examples as the first one.
Status check_counts(const FoundSplit& split, const NpyArray& first, const NpyArray& array);

// Leaves the examples whose one label the split ignores out of the labels and of other arrays,
// which have as many examples.
void leave_out_ignored(const FoundSplit& split, NpyArray& labels, std::span<NpyArray> others);

// Tells all splits the label that they ignore, if there is one, with a note about the labels of
// each.
using ReadLabels = std::function<Result<NpyArray>(const FoundSplit&)>;
Status take_ignored_label(std::optional<int64_t> label, const ReadLabels& read, FoundData& found);

// A note about the labels of a split that are ignored, of examples or places.
std::string ignored_note(const FoundSplit& split, const NpyArray& labels);

// The inputs of a file for predictions, NPZ or NPY, and the targets if they are there; else `y` has
// no name. Errors: no inputs, or those of several splits.
Result<ArrayPair> read_inputs(const std::filesystem::path& path);

// "[60000, 28, 28]".
std::string shape_text(const NpyArray& array);
// "'a.npz': 'x' [60000, 28, 28]".
std::string place_of(const FoundSplit& split, const NpyArray& array);

}  // namespace mantissa
