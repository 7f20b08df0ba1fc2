// People's own data as arrays.
#include <new>
#include <utility>

#include "api/public_values.h"
#include "api/settings/describe_settings.h"
#include "api/training/array_set.h"
#include "data/batches/examples.h"
#include "data/batches/no_label.h"
#include "data/datasets/dataset.h"
#include "mantissa/data.h"
#include "run/settings/run_network.h"
#include "tensor/table_numbers.h"

namespace mantissa {

ArraySet arrays_of(ExampleSet& set) {
  ArraySet arrays{.count = set.count, .arrays = {}};
  for (StoredTensor& tensor : set.tensors) {
    if (const auto* const labels = std::get_if<std::vector<Label>>(&tensor.numbers)) {
      std::vector<int32_t> wide(labels->begin(), labels->end());
      for (int32_t& label : wide) {
        if (!is_known(tensor, static_cast<Label>(label))) label = kIgnoredLabel;
      }
      tensor.numbers = std::move(wide);
    }
    const Elements elements =
        std::holds_alternative<std::vector<uint8_t>>(tensor.numbers)   ? Elements::kUint8
        : std::holds_alternative<std::vector<int32_t>>(tensor.numbers) ? Elements::kInt32
                                                                       : Elements::kMantissa;
    arrays.arrays.push_back({tensor.name, elements, dims_of(tensor.shape), tensor.bytes().data()});
  }
  return arrays;
}

namespace {

// May throw std::bad_alloc.
Outcome<LoadedData> load(const Settings& settings) {
  MANTISSA_ASSIGN(const auto config, describe_config(settings));
  MANTISSA_ASSIGN(auto data, load_dataset(config.run.data, true, true, data_options(config.run)));
  MANTISSA_RETURN_IF_ERROR(check_settings_of_data(config.run, data.info));
  const auto memory = std::make_shared<Dataset>(std::move(data));
  const DatasetInfo& info = memory->info;
  const Target& target = info.target;
  // With several numbers, the table shows their means.
  const TargetNumber number = target.numbers.size() == 1 ? target.numbers[0] : TargetNumber();
  return LoadedData{.train = arrays_of(memory->train),
                    .validation = arrays_of(memory->validation),
                    .test = arrays_of(memory->test),
                    .kind = info.kind,
                    .class_names = target.names,
                    .has_named_classes = target.named && !target.names.empty(),
                    .notes = info.notes,
                    .table_json = table_json(info.table),
                    .number_exponent = info.table ? kFeatureExponent : 0,
                    .target_exponent = target.is_number() ? kTargetExponent : 0,
                    .target_mean = number.mean,
                    .target_deviation = number.deviation,
                    .memory = memory};
}

}  // namespace

Outcome<LoadedData> load_data(const Settings& settings) {
  try {
    return load(settings);
  } catch (const std::bad_alloc&) {
    return Failure{Exit::kFailed, "there is no memory for the data"};
  }
}

}  // namespace mantissa
