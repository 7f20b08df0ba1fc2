// Predictions of test examples, with what is true of them.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "api/inference/network_data.h"
#include "api/inference/predictor.h"
#include "data/batches/no_label.h"
#include "tensor/table_numbers.h"

namespace mantissa {

// A picture, not yet predicted.
Prediction with_pixels(std::string source, const PictureForm& form, std::vector<uint8_t> pixels) {
  return {.source = std::move(source),
          .height = form.height,
          .width = form.width,
          .channels = form.channels,
          .pixels = std::move(pixels)};
}

namespace {

// The truth about an example, in the tensor of a target.
void take_truth(const Target& target, const ExampleSet& test, size_t at, Prediction& example) {
  for (const Target& part : target.parts) {
    take_truth(part, test, at, example.outputs.emplace_back());
  }
  const auto tensor = [&](const char* usual) {
    return target.output.empty() ? std::string(usual) : target.output;
  };
  if (target.is_number()) {
    const size_t count = target.numbers.size();
    const auto& numbers = test.numbers<int16_t>(tensor(kTargetTensor));
    for (size_t k = 0; k < count; ++k) {
      const TargetNumber& number = target.numbers[k];
      example.truths.push_back(
          std::ldexp(numbers[at * count + k], kTargetExponent) * number.deviation + number.mean);
    }
    example.truth = example.truths[0];
  } else if (target.is_sequence()) {
    const int64_t most = test.find(kLabelTensor)->shape.count();
    const auto first = test.labels().begin() + static_cast<int64_t>(at) * most;
    example.true_labels.assign(first, std::find(first, first + most, kNoLabel));
    example.knows_order = true;
  } else if (target.has_labels()) {
    const auto first = test.numbers<Label>(tensor(kLabelTensor)).begin() +
                       static_cast<int64_t>(at) * target.classes;
    example.true_labels.assign(first, first + target.classes);
  } else if (target.parts.empty() && test.find(tensor(kLabelTensor))->shape.rank == 0) {
    example.label = test.numbers<Label>(tensor(kLabelTensor))[at];
  }
}

// A test example, not yet predicted.
Prediction test_example(const Dataset& data, int64_t i) {
  const ExampleSet& test = data.test;
  const PictureForm form = test.picture_form();
  const auto first = test.pixels().begin() + i * form.bytes();
  Prediction example =
      with_pixels("test " + std::to_string(i), form, {first, first + form.bytes()});
  take_truth(data.info.target, test, static_cast<size_t>(i), example);
  return example;
}

}  // namespace

Status predict_examples(const PredictionConfig& config, Predictor& predictor) {
  MANTISSA_ASSIGN(const Dataset data, load_test_data(config, predictor.network));
  if (config.last_index >= data.test.count) {
    return invalid_input("index: " + data.info.name + " has test examples 0 to " +
                         std::to_string(data.test.count - 1));
  }
  const Examples test = examples_of(data.test);
  const int64_t end = config.last_index + 1;
  for (int64_t first = config.first_index; first < end; first += kPredictedAtOnce) {
    const int64_t count = std::min(kPredictedAtOnce, end - first);
    std::vector<Prediction> batch;
    for (int64_t i = first; i < first + count; ++i) batch.push_back(test_example(data, i));
    MANTISSA_RETURN_IF_ERROR(predictor.run(std::move(batch), examples_from(first, count, test)));
  }
  return {};
}

}  // namespace mantissa
