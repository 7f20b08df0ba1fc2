// The data of a run: for training, held back, and for testing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/batches/examples.h"
#include "data/datasets/dataset.h"
#include "run/plan/run_plan.h"
#include "run/settings/run_config.h"

namespace mantissa {

struct RunData {
  DatasetInfo info;
  std::string sha256;  // of all examples, before any were held back
  // The training examples as the settings change them in each epoch, with weights of their classes
  // if the settings have some; and as they are.
  Examples augmented, train;
  Examples validation;  // the data set's own, or held back from the training examples
  Examples test;
  ChannelMeans channel_means = {};          // of training pictures; none: of other data
  std::string tokenizer = {};               // to_json(WordPiece) of a text's vocabulary; "": none
  std::vector<std::string> notes = {};      // notes that only reading the data gives
  std::shared_ptr<const void> memory = {};  // the examples' own
};

// The data set of a run, without reading its pictures: language models read a text, other networks
// pictures or rows.
Result<DatasetInfo> inspect_run_data(const RunConfig& config);

// Loads the data that the plan was made for, `inspected`. An error if they are other data now.
Result<RunData> load_run_data(const RunConfig& config, const DatasetInfo& inspected,
                              const RunPlan& plan);

}  // namespace mantissa
