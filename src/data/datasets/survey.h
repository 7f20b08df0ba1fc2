// The contents of a data set: counts, sizes, statistics and oddities.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/datasets/dataset.h"
#include "formats/pictures/image.h"

namespace mantissa {

struct DataSurvey {
  DatasetInfo info;                                                   // as training would load it
  PictureSize smallest, largest;                                      // of the pictures as they are
  std::vector<int64_t> train_counts, validation_counts, test_counts;  // per class
  // For each channel of the training pictures as loaded, in units of pixel values.
  std::vector<double> mean, deviation;
  int64_t duplicates = 0;               // test pictures that are training pictures, too
  std::vector<std::string> unreadable;  // a line each; left out of everything else
  std::string refusal;                  // why training would refuse it; "" if it would not
};

// Reads all of a data set, whose examples are left in `examples`. Errors as in load_dataset. Two
// are not errors here: unreadable pictures in folders, which are listed, and splits without
// pictures.
Result<DataSurvey> survey_dataset(const std::string& name_or_path, const DataOptions& options,
                                  Dataset& examples);

// A picture with a row for each class, of its first `columns` (> 0) examples, each from 16 to 64
// pixels high or wide, on grey. If there are more than 910 classes, it shows the first 910.
Image contact_sheet(const ExampleSet& images, int classes, int columns);

}  // namespace mantissa
