// The kinds of data sets that are understood: one row of functions each. A reader says whether a
// folder or file is of its kind, describes it from its headers (tables from their rows), and reads
// its examples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/datasets/dataset.h"
#include "data/pictures/resize.h"
#include "data/tables/table_columns.h"

namespace mantissa {

// One split before its pictures are read.
struct FoundSplit {
  int64_t count = 0;
  std::filesystem::path folder;
  std::vector<std::string> files;  // in the folder, as its reader wants them; there may be millions
  std::vector<Label> labels;       // [count], or empty if only loading tells them
  RowPart part = RowPart::kAll;    // of a table's rows
  std::optional<int64_t> ignored_label = {};  // in arrays

  std::filesystem::path file(size_t i) const { return folder / files[i]; }
};

// A data set before its pictures are read.
struct FoundData {
  PictureSize smallest, largest;  // of all pictures, by pixels; the same if all have one size
  int64_t channels = 0;           // 3 if any picture has colours
  Target target;                  // without the number of its classes
  Shape label_shape = {};         // of an example's labels: [H, W] if each pixel has one
  Label largest_label = 0;        // of pixels
  FoundSplit train, validation, test;   // no validation pictures: none are set apart
  int64_t decoding_bytes = 0;           // most that reading one picture holds
  int64_t array_bytes = 0;              // held while a split is read from arrays
  std::optional<TableSchema> table;     // of tables, which have no sizes and channels
  DataNouns nouns;
  std::vector<std::string> notes;       // notes for the user, a line each
  std::vector<std::string> unreadable;  // a line for each file that should be a picture but is none
};

struct ReadOptions {
  PictureForm form;  // the size and channels of all pictures
  int threads = 1;   // changes no result
  // If given, unreadable pictures are left out and listed here; else the first is an error.
  std::vector<std::string>* unreadable = nullptr;
  // If given, notes that only reading finds are added here, a line each.
  std::vector<std::string>* notes = nullptr;
};

// A split before and after its pictures are read.
struct SplitRow {
  FoundSplit FoundData::*found;
  ExampleSet Dataset::*set;
  const char* name;
};
constexpr SplitRow kSplitRows[] = {
    {&FoundData::train, &Dataset::train, "training"},
    {&FoundData::validation, &Dataset::validation, "validation"},
    {&FoundData::test, &Dataset::test, "test"},
};

struct DataReader {
  const char* kind;
  const char* looks_for;  // the files that it knows its kind by; null: `inspect` only says what to
                          // get instead
  bool (*recognises)(const std::filesystem::path& folder);
  Result<FoundData> (*inspect)(const std::filesystem::path& path, const DataOptions& options);
  Result<ExampleSet> (*read)(const FoundData& found, const FoundSplit& split,
                             const ReadOptions& options);
  // If it also reads single files; else null.
  bool (*recognises_file)(const std::filesystem::path& file) = nullptr;
};

extern const DataReader kIdxReader;
extern const DataReader kCifar10Reader;
extern const DataReader kCifar100Reader;
extern const DataReader kCifarPythonReader;
extern const DataReader kArrayReader;
extern const DataReader kCsvReader;
extern const DataReader kListReader;
extern const DataReader kFolderReader;

// All readers; the first that recognises a folder reads it.
std::span<const DataReader* const> data_readers();

// How many of `threads` may read pictures that take this many bytes each, so that together they
// hold at most 256 MiB (or one picture).
int reading_threads(int64_t decoding_bytes, int threads);

// Whether a file or folder is there. One that cannot be examined counts as there: reading it gives
// the reason. Otherwise other data, or none, would be read instead.
bool is_file(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

// 'a/b'
std::string quoted(const std::filesystem::path& path);

// "0", "1", ...
std::vector<std::string> numbered_classes(int classes);

// An empty set of that form, with room for `count` pictures. Address space only: a false count
// takes no memory. An error if even that cannot be had.
Result<ExampleSet> empty_set(int64_t count, const PictureForm& form);

// Appends a picture, brought to the set's form. May throw std::bad_alloc.
void append_picture(const uint8_t* pixels, const PictureForm& form, Label label, ExampleSet& set);

}  // namespace mantissa
