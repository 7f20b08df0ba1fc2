// People's own data, from any path that the command line takes.
//
//   auto data = mantissa::load_data({{"data", "pictures/"}, {"input-size", "32"}});
//   trainer->fit(data->train, {.epochs = 5});
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mantissa/export.h"
#include "mantissa/mantissa.h"
#include "mantissa/outcome.h"
#include "mantissa/training.h"

namespace mantissa {

// A data set in memory. Pictures have the array "pixels" (uint8 [height, width, channels]). Tables
// have "numbers" (kMantissa [features], with the exponent number_exponent). Classes are "labels"
// (int32 []); numbers to predict are "targets" (kMantissa [1], with the exponent target_exponent).
// With "row-weights" training rows have "weights" (kMantissa [], with the exponent -10). A split
// that the data lack has no examples.
struct LoadedData {
  ArraySet train, validation, test;
  std::string kind;                      // "IDX files"
  std::vector<std::string> class_names;  // empty: the targets are numbers
  bool has_named_classes = false;        // else their names are their numbers
  std::vector<std::string> notes;        // notes for the user, a line each
  std::string table_json;                // the columns of a table (docs/data.md); else ""
  int number_exponent = 0, target_exponent = 0;
  // A target is (number - mean) / deviation.
  double target_mean = 0, target_deviation = 1;
  std::shared_ptr<const void> memory;  // keeps the arrays alive, while this or a copy lives
};

// Loads all splits of "data": a name or a path, with the settings of the command "data" (except
// "contact-sheet"). Pictures of different sizes are brought to one size.
MANTISSA_EXPORT Outcome<LoadedData> load_data(const Settings& settings);

}  // namespace mantissa
