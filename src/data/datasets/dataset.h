// Data sets: labelled pictures, and tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/pictures/resize.h"
#include "data/tables/table_schema.h"

namespace mantissa {

// The examples of a split: pictures, or rows of a table.
struct ImageSet {
  int64_t count = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;  // [count][height][width][channels]
  std::vector<Label> labels;    // [count], or none: the targets are numbers
  // Tables have these in place of pixels: mantissas (tensor/table_numbers.h), or tokens of texts.
  int64_t features = 0;               // 0: these are pictures
  std::vector<int16_t> numbers = {};  // [count][features]
  std::vector<int16_t> targets = {};  // [count], or none: there are labels
  // The padding token after a text, if these are texts; in `numbers` kNoToken stands there.
  std::optional<int32_t> padding = std::nullopt;
  std::vector<int16_t> weights =
      {};  // [count] of training rows (data/tables/row_weights.h), or none

  int64_t example_bytes() const {  // without the target
    return features > 0 ? features * int64_t{sizeof(int16_t)} : height * width * channels;
  }
};

// Sizes and counts are those that the examples have once they are loaded.
struct DatasetInfo {
  std::string name;
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  int classes = 0;
  int64_t train_count = 0;
  int64_t validation_count = 0;  // 0: the data set has none of its own
  int64_t test_count = 0;
  std::vector<std::string> class_names = {};  // [classes]
  bool named = false;                         // these are names, not numbers
  std::string kind = {};                      // "IDX files"
  std::vector<std::string> notes = {};        // notes for the user, a line each
  int64_t loading_bytes = 0;                  // held for a while during loading, besides bytes()
  std::optional<TableSchema> table = {};      // of tables, which have no size and channels
  int64_t sequence = 0;                       // of a text: tokens of an example; classes are tokens
  int64_t text_bytes = 0;                     // of a text: its tokens in memory

  bool is_regression() const { return table && table->is_regression(); }
  bool has_row_weights() const { return table && !table->weights.empty(); }

  // Memory that all splits take when loaded.
  int64_t bytes() const {
    if (sequence > 0) return text_bytes;
    const int64_t input_bytes =
        table ? table->features() * int64_t{sizeof(int16_t)} : height * width * channels;
    const int64_t example_bytes = input_bytes + int64_t{sizeof(Label)};  // targets are as large
    return (train_count + validation_count + test_count) * example_bytes +
           (has_row_weights() ? train_count * int64_t{sizeof(int16_t)} : 0);
  }
};

struct Dataset {
  DatasetInfo info;
  ImageSet train;
  ImageSet validation = {};
  ImageSet test;
};

// The form that examples are brought to.
struct DataOptions {
  PictureSize size = {};      // 0 x 0: unchanged; 64 x 64 if they differ in size
  int64_t channels = 0;       // 0: unchanged; 3 if any has colours
  int classes = 0;            // 0: as many as there are; more are allowed
  std::string positive = {};  // the class that is taken against all others; "": there is none
  int threads = 1;            // to read pictures with; changes no result
  TableChoices table = {};
  // The columns of tables as a network knows them; else they follow from the training rows.
  std::optional<TableSchema> schema = {};
};

// Describes a data set from its headers and label files, without reading pictures.
//
// A name: "fashion-mnist", "cifar-10" or "cifar-100", looked for in $MANTISSA_DATA/NAME and in
// /usr/share/datasets/NAME. Or a folder of one of the kinds that readers.h lists; docs/data.md
// describes them.
//
// Errors name the files: missing, damaged, no examples, different numbers of pictures and labels,
// train and test that do not match, more than kMaxClasses classes, more classes than `options`
// allows.
Result<DatasetInfo> inspect_dataset(const std::string& name_or_path,
                                    const DataOptions& options = {});

// Loads the splits that are wanted (the others stay empty); training takes validation pictures with
// it, if there are any. Errors as inspect_dataset. Pictures that need no resizing are read straight
// into their final buffer: no second copy.
Result<Dataset> load_dataset(const std::string& name_or_path, bool with_train, bool with_test,
                             const DataOptions& options = {});

// An error if the loaded data differ from the plan (by inspect_dataset).
Status check_unchanged(const DatasetInfo& inspected, const DatasetInfo& loaded);

// The mean of each channel over all pictures, rounded to nearest (ties up); zeros for an empty set.
std::vector<int> channel_means(const ImageSet& images);

// One SHA-256 over everything in the data set that training and its results depend on: sizes,
// pixels and labels of all splits.
std::string data_sha256(const Dataset& data);

}  // namespace mantissa
