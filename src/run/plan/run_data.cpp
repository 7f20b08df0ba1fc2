#include "run/plan/run_data.h"

#include <algorithm>
#include <utility>

#include "data/batches/split.h"

namespace mantissa {

namespace {

Result<RunData> load_run_text(const RunConfig& config, const DatasetInfo& inspected) {
  RunData run;
  run.text_options = text_options(config);
  MANTISSA_ASSIGN(Text text, load_text(config.data, run.text_options));
  run.name = config.data;
  run.class_names = text.vocabulary.names();
  run.sha256 = text.sha256;
  run.seed = config.seed;
  run.text = std::move(text);
  const bool is_same = run.class_names == inspected.class_names &&
                       run.training_examples().count == inspected.train_count &&
                       run.test_examples().count == inspected.test_count;
  if (is_same) return run;
  return invalid_input("'" + config.data + "' has changed since the run was planned");
}

}  // namespace

Result<Examples> RunData::augmented(const RunConfig& config) const {
  if (text) return training_examples();
  Examples examples = examples_of(train, config.augmentation, config.seed);
  if (!config.class_weights.any()) return examples;
  MANTISSA_ASSIGN(std::vector<int16_t> mantissas,
                  class_weight_mantissas(config.class_weights, train.labels,
                                         static_cast<int64_t>(class_names.size())));
  return with_class_weights(std::move(examples), std::move(mantissas));
}

Result<DatasetInfo> inspect_run_data(const RunConfig& config) {
  if (config.sequence > 0) return inspect_text(config.data, text_options(config));
  return inspect_dataset(config.data, data_options(config));
}

Result<RunData> load_run_data(const RunConfig& config, const DatasetInfo& inspected,
                              const RunPlan& plan) {
  if (config.sequence > 0) return load_run_text(config, inspected);
  MANTISSA_ASSIGN(Dataset data, load_dataset(config.data, true, true, data_options(config)));
  MANTISSA_RETURN_IF_ERROR(check_unchanged(inspected, data.info));
  RunData run{.name = std::move(data.info.name),
              .class_names = std::move(data.info.class_names),
              .train = {},
              .validation = {},
              .test = {},
              .sha256 = data_sha256(data),
              .table = std::move(data.info.table)};
  const std::vector<std::string>& notes = data.info.notes;
  run.notes.assign(notes.begin() + std::min(std::ssize(notes), std::ssize(inspected.notes)),
                   notes.end());
  run.train = std::move(data.train);
  run.test = std::move(data.test);
  run.validation = std::move(data.validation);
  if (run.validation.count == 0) {
    MANTISSA_ASSIGN(run.validation, split_off(run.train, config.seed, plan.validation_examples));
  }
  return run;
}

Status set_channel_means(const RunConfig& config, const RunData& data, RunPlan& plan) {
  if (data.text) return {};
  return set_channel_means(config, channel_means(data.train), plan);
}

}  // namespace mantissa
