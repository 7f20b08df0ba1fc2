// People's own data as arrays.
#include <new>
#include <utility>

#include "api/public_values.h"
#include "api/settings/settings.h"
#include "data/batches/examples.h"
#include "data/datasets/dataset.h"
#include "mantissa/data.h"
#include "tensor/table_numbers.h"

namespace mantissa {
namespace {

// The data set, and labels with the bytes that networks take.
struct Memory {
  Dataset data;
  std::vector<int32_t> train_labels, validation_labels, test_labels;
};

// A split's arrays. Its labels move to `labels`.
ArraySet arrays_of(ImageSet& set, std::vector<int32_t>& labels) {
  ArraySet arrays{.count = set.count, .arrays = {}};
  if (set.count == 0) return arrays;
  if (set.features > 0) {
    arrays.arrays.push_back(
        {kNumberTensor, Elements::kMantissa, {set.features}, set.numbers.data()});
  } else {
    arrays.arrays.push_back(
        {kPixelTensor, Elements::kUint8, {set.height, set.width, set.channels}, set.pixels.data()});
  }
  if (!set.weights.empty()) {
    arrays.arrays.push_back({kWeightTensor, Elements::kMantissa, {}, set.weights.data()});
  }
  if (set.labels.empty()) {
    arrays.arrays.push_back({kTargetTensor, Elements::kMantissa, {1}, set.targets.data()});
    return arrays;
  }
  labels.assign(set.labels.begin(), set.labels.end());
  set.labels = {};
  arrays.arrays.push_back({kLabelTensor, Elements::kInt32, {}, labels.data()});
  return arrays;
}

}  // namespace

namespace {

// May throw std::bad_alloc.
Outcome<LoadedData> load(const Settings& settings) {
  const auto config = describe_config(settings);
  if (!config.ok()) return failure_of(config.error());
  auto data = load_dataset(config->data, true, true, config->options);
  if (!data.ok()) return failure_of(data.error());
  const auto memory = std::make_shared<Memory>();
  memory->data = std::move(*data);
  const DatasetInfo& info = memory->data.info;
  LoadedData loaded{.train = arrays_of(memory->data.train, memory->train_labels),
                    .validation = arrays_of(memory->data.validation, memory->validation_labels),
                    .test = arrays_of(memory->data.test, memory->test_labels),
                    .kind = info.kind,
                    .class_names = info.class_names,
                    .has_named_classes = info.named && !info.class_names.empty(),
                    .notes = info.notes,
                    .table_json = info.table ? to_json(*info.table) : "",
                    .number_exponent = info.table ? kFeatureExponent : 0,
                    .target_exponent = info.is_regression() ? kTargetExponent : 0,
                    .memory = memory};
  if (info.is_regression()) {
    loaded.target_mean = info.table->target.mean;
    loaded.target_deviation = info.table->target.deviation;
  }
  return loaded;
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
