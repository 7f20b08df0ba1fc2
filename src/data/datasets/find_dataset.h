// Finds a data set by name or path, and its reader.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "data/datasets/readers.h"

namespace mantissa {

struct LocatedData {
  std::filesystem::path folder;  // or file
  const DataReader* reader = nullptr;
  FoundData found;
};

// Describes a data set from its headers, tables from their rows. Unreadable pictures are listed,
// and are no error. Other errors are the same as in inspect_dataset.
Result<LocatedData> find_dataset(const std::string& name_or_path, const DataOptions& options);

// An error if training would refuse it: unreadable pictures, no training or no test examples.
Status check_found(const LocatedData& data);

// Describes a data set as it will be loaded. Errors: more classes than `options` allows.
Result<DatasetInfo> describe_found(const std::string& name, const LocatedData& data,
                                   const DataOptions& options);

// The classes without examples in a split, as a line; "" if there are none, or no labels.
std::string missing_classes(const char* split, const std::vector<Label>& labels,
                            const std::vector<std::string>& names);

// The form that pictures are brought to when they are loaded.
PictureForm loaded_form(const FoundData& found, const DataOptions& options);

// "28x32"
std::string size_text(const PictureSize& size);

}  // namespace mantissa
