#include "data/batches/class_weights.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/real_text.h"

namespace mantissa {
namespace {

Error bad_weights(std::string_view text) {
  return invalid_input("class-weights: '" + std::string(text) +
                       "' is neither none nor balanced, nor numbers from 0 to 31 with commas "
                       "between them, one for each class: 1,2,0.5");
}

std::vector<int16_t> balanced_mantissas(std::span<const Label> labels, int64_t classes) {
  std::vector<int64_t> counts(static_cast<size_t>(classes), 0);
  for (const Label label : labels) ++counts[label];
  std::vector<double> weights;
  for (const int64_t count : counts) {
    const double share = static_cast<double>(labels.size()) / static_cast<double>(classes);
    weights.push_back(count == 0 ? 0 : share / static_cast<double>(count));
  }
  double unit = 1;
  while (*std::max_element(weights.begin(), weights.end()) * unit > kMostWeight) unit /= 2;
  std::vector<int16_t> mantissas;
  for (const double weight : weights) {
    const int16_t least = weight == 0 ? 0 : 1;
    mantissas.push_back(std::max(least, weight_mantissa(weight * unit)));
  }
  return mantissas;
}

}  // namespace

Result<ClassWeights> parse_class_weights(std::string_view text) {
  ClassWeights result;
  if (text.empty() || text == "none") return result;
  result.balanced = text == "balanced";
  if (result.balanced) return result;
  bool any = false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    double weight = 0;
    const auto [rest, error] = std::from_chars(text.data() + begin, text.data() + end, weight);
    const bool is_number = error == std::errc() && rest == text.data() + end;
    if (!is_number || !(weight >= 0 && weight <= kMostWeight)) return bad_weights(text);
    any |= weight_mantissa(weight) > 0;
    result.weights.push_back(weight);
    begin = end + 1;
  }
  if (any) return result;
  return invalid_input("class-weights: all are 0, or too small; steps are 1/1024");
}

std::string to_string(const ClassWeights& weights) {
  if (weights.balanced) return "balanced";
  std::string text;
  for (const double weight : weights.weights) text += (text.empty() ? "" : ",") + real_text(weight);
  return text.empty() ? "none" : text;
}

Result<std::vector<int16_t>> class_weight_mantissas(const ClassWeights& weights,
                                                    std::span<const Label> labels,
                                                    int64_t classes) {
  if (weights.balanced) return balanced_mantissas(labels, classes);
  if (std::ssize(weights.weights) != classes) {
    return invalid_input("class-weights: there are " + std::to_string(weights.weights.size()) +
                         " weights and " + std::to_string(classes) + " classes");
  }
  std::vector<int16_t> mantissas;
  for (const double weight : weights.weights) mantissas.push_back(weight_mantissa(weight));
  return mantissas;
}

Examples with_class_weights(Examples examples, std::vector<int16_t> mantissas) {
  const auto is_label = [](const TensorSpec& spec) { return spec.name == kLabelTensor; };
  const auto place = std::find_if(examples.specs.begin(), examples.specs.end(), is_label);
  const auto label_at = static_cast<size_t>(place - examples.specs.begin());
  examples.specs.push_back({kWeightTensor, DataType::kInt16, Shape{}});
  examples.write = [write = std::move(examples.write), mantissas = std::move(mantissas), label_at](
                       uint32_t epoch, uint32_t example, std::span<std::byte* const> places) {
    write(epoch, example, places.first(places.size() - 1));
    int32_t label = 0;
    std::memcpy(&label, places[label_at], sizeof label);
    std::memcpy(places.back(), &mantissas[static_cast<size_t>(label)], sizeof(int16_t));
  };
  return examples;
}

}  // namespace mantissa
