// The data of a run: for training, held back, and for testing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/batches/examples.h"
#include "data/datasets/dataset.h"
#include "data/text/text.h"
#include "run/plan/run_plan.h"
#include "run/settings/run_config.h"

namespace mantissa {

struct RunData {
  std::string name;  // of the data set
  std::vector<std::string> class_names;
  ImageSet train;
  ImageSet validation;  // the data set's own, or held back from the training examples
  ImageSet test;
  std::string sha256;  // of all of them, before any were held back
  std::optional<TableSchema> table = {};
  // In place of pictures and rows: a text, and how examples are made of it.
  std::optional<Text> text = {};
  TextOptions text_options = {};
  uint64_t seed = 0;                    // of masks
  std::vector<std::string> notes = {};  // notes that only reading the data gives

  // The training examples as the settings change them in each epoch, with weights of their classes
  // if the settings have some.
  Result<Examples> augmented(const RunConfig& config) const;
  Examples training_examples() const {
    return text ? examples_for(text->vocabulary, text->train, text_options, seed)
                : examples_of(train);
  }
  Examples validation_examples() const {
    return text ? examples_for(text->vocabulary, text->validation, text_options, kTestMasks)
                : examples_of(validation);
  }
  Examples test_examples() const {
    return text ? examples_for(text->vocabulary, text->test, text_options, kTestMasks)
                : examples_of(test);
  }
};

// The data set of a run, without reading its pictures.
Result<DatasetInfo> inspect_run_data(const RunConfig& config);

// Loads the data that the plan was made for, `inspected`. An error if they are other data now.
Result<RunData> load_run_data(const RunConfig& config, const DatasetInfo& inspected,
                              const RunPlan& plan);

// Gives the plan the means of the training pictures, if the data are pictures.
Status set_channel_means(const RunConfig& config, const RunData& data, RunPlan& plan);

}  // namespace mantissa
