// People's own data as arrays.
#include <new>
#include <utility>

#include "api/public_values.h"
#include "api/settings/settings.h"
#include "api/training/array_set.h"
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

}  // namespace

ArraySet arrays_of(ExampleSet& set, std::vector<int32_t>& labels) {
  constexpr Elements kElements[] = {Elements::kUint8, Elements::kMantissa, Elements::kInt32,
                                    Elements::kInt32};  // of the types of a StoredTensor
  ArraySet arrays{.count = set.count, .arrays = {}};
  for (StoredTensor& tensor : set.tensors) {
    Array& array = arrays.arrays.emplace_back(Array{tensor.name, kElements[tensor.numbers.index()],
                                                    dims_of(tensor.shape), tensor.bytes().data()});
    auto* const narrow = std::get_if<std::vector<Label>>(&tensor.numbers);
    if (narrow == nullptr) continue;
    labels.assign(narrow->begin(), narrow->end());
    *narrow = {};
    array.data = labels.data();
  }
  return arrays;
}

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
  const Target& target = info.target;
  return LoadedData{.train = arrays_of(memory->data.train, memory->train_labels),
                    .validation = arrays_of(memory->data.validation, memory->validation_labels),
                    .test = arrays_of(memory->data.test, memory->test_labels),
                    .kind = info.kind,
                    .class_names = target.names,
                    .has_named_classes = target.named && !target.names.empty(),
                    .notes = info.notes,
                    .table_json = table_json(info.table),
                    .number_exponent = info.table ? kFeatureExponent : 0,
                    .target_exponent = target.is_number() ? kTargetExponent : 0,
                    .target_mean = target.mean,
                    .target_deviation = target.deviation,
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
