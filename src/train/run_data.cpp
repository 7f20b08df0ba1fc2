#include "train/run_data.h"

#include <utility>

#include "data/split.h"

namespace mantissa {

Result<RunData> load_run_data(const RunConfig& config, const DatasetInfo& inspected,
                              const RunPlan& plan) {
  MANTISSA_ASSIGN(Dataset data, load_dataset(config.data, true, true, data_options(config)));
  MANTISSA_RETURN_IF_ERROR(check_unchanged(inspected, data.info));
  RunData run{.name = std::move(data.info.name),
              .class_names = std::move(data.info.class_names),
              .train = {},
              .validation = {},
              .test = {},
              .sha256 = data_sha256(data),
              .table = std::move(data.info.table)};
  run.train = std::move(data.train);
  run.test = std::move(data.test);
  run.validation = std::move(data.validation);
  if (run.validation.count == 0) {
    MANTISSA_ASSIGN(run.validation, split_off(run.train, config.seed, plan.validation_examples));
  }
  return run;
}

}  // namespace mantissa
