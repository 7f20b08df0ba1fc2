// The data of a run: what it trains on, what is held back, and what it is tested on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/dataset.h"
#include "data/examples.h"
#include "train/run_config.h"
#include "train/run_plan.h"

namespace mantissa {

struct RunData {
  std::string name;  // of the data set
  std::vector<std::string> class_names;
  ImageSet train;
  ImageSet validation;  // the data set's own, or held back from the training examples
  ImageSet test;
  std::string sha256;  // of all of them, before any were held back
  std::optional<TableSchema> table = {};

  // The training examples as the settings change them in each epoch.
  Examples augmented(const RunConfig& config) const {
    return examples_of(train, config.augmentation, config.seed);
  }
};

// Loads the data that the plan was made for, `inspected`. An error if they are other data now.
Result<RunData> load_run_data(const RunConfig& config, const DatasetInfo& inspected,
                              const RunPlan& plan);

}  // namespace mantissa
