// Data sets: named tensors of examples, and what networks are to learn of these.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/batches/batch.h"
#include "data/batches/example_set.h"
#include "data/pictures/resize.h"
#include "data/tables/learned_data.h"
#include "data/tables/table_schema.h"

namespace mantissa {

// kSequence: labels in an order, without places. kSeveral: a target for each output of a network.
enum class TargetKind : uint8_t { kClasses, kLabels, kSequence, kNumber, kTokens, kSeveral };

// A number that is predicted: networks learn (number - mean) / deviation.
struct TargetNumber {
  std::string column = {};
  double mean = 0, deviation = 1;
};

// The prediction for an example: a class, labels that do not exclude one another or that come in an
// order, numbers, the tokens of a vocabulary, or several of classes, labels and numbers.
struct Target {
  TargetKind kind = TargetKind::kClasses;
  int classes = 0;                         // or labels, or tokens; 0 of numbers
  std::vector<std::string> names = {};     // [classes]
  bool named = false;                      // these are names, not numbers
  std::vector<TargetNumber> numbers = {};  // of numbers: at least one
  std::vector<Target> parts = {};          // of several: the target of each output
  std::string output = {};                 // the name of such an output

  bool is_number() const { return kind == TargetKind::kNumber; }
  bool has_labels() const { return kind == TargetKind::kLabels; }
  bool is_sequence() const { return kind == TargetKind::kSequence; }
  int outputs() const { return is_number() ? static_cast<int>(numbers.size()) : classes; }
};
Target target_of(const TableSchema& schema);

// Nouns in messages about a data set.
struct DataNouns {
  const char* examples = "pictures";
  const char* files = "pictures";  // their contents
};

// Sizes and counts are those that the examples have once they are loaded.
struct DatasetInfo {
  std::string name;
  std::vector<TensorSpec> specs;  // of a training example in batches, its inputs first
  Target target = {};
  int64_t train_count = 0;
  int64_t validation_count = 0;  // 0: the data set has none of its own
  int64_t test_count = 0;
  int64_t bytes = 0;                    // that all splits take when loaded
  int64_t loading_bytes = 0;            // held for a while during loading, besides these
  std::string kind = {};                // "IDX files"
  std::vector<std::string> notes = {};  // notes for the user, a line each
  DataNouns nouns = {};
  std::optional<TableSchema> table = {};  // how rows of tables become tensors; nothing of others

  // The tensor of that name, or null.
  const TensorSpec* find(std::string_view tensor) const { return find_spec(specs, tensor); }
  // Whether arrays fill the inputs by their names, or columns pictures and numbers.
  bool has_named_inputs() const {
    return table && (table->has_named_inputs() || table->picture.has_value());
  }
  bool has_pictures() const;
};

// "pictures of [28, 28, 1]", "tables of 13 numbers", "texts of 128 tokens": the inputs of examples
// with these tensors.
std::string examples_text(std::span<const TensorSpec> specs);

// "'picture' (U8 [28, 28, 1]) and 'vector' (I16 [6])": the inputs, by name.
std::string inputs_text(std::span<const TensorSpec> specs);

// How to leave out the last class of arrays, for an error about too many classes:
// "; --ignore-label 255 leaves that label out ..."; "" for other data.
std::string ignore_remedy(const DatasetInfo& data);

// An error if the data are a table: "SUBJECT pictures, and NAME is a table".
Status check_no_table(const DatasetInfo& data, const std::string& subject);

struct Dataset {
  DatasetInfo info;
  ExampleSet train;
  ExampleSet validation = {};
  ExampleSet test;
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
  // The columns and classes of the network that training starts from.
  std::optional<LearnedData> learned = {};
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

// Means of pictures, by the names of their tensors.
using ChannelMeans = std::map<std::string, std::vector<int>>;

// The mean of each channel over all pictures of a tensor, rounded to nearest (ties up): zeros for
// an empty set, none for a set without pictures.
ChannelMeans channel_means(const ExampleSet& set);

// One SHA-256 over everything in the data set that training and its results depend on: sizes,
// tensors of all splits.
std::string data_sha256(const Dataset& data);

}  // namespace mantissa
