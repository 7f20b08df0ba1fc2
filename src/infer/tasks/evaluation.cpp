#include "infer/tasks/evaluation.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "numerics/exponential.h"
#include "numerics/rounding.h"
#include "ops/fp32.h"
#include "ops/wide_values.h"

namespace mantissa {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The order of a row's logits: the largest comes first, of equal ones the first class.
struct Ranks {
  int guess = 0;
  int64_t of_label = 0;  // classes before the label
};

template <typename T>
Ranks ranks_of(const T* logits, int64_t classes, int label) {
  Ranks ranks{static_cast<int>(std::max_element(logits, logits + classes) - logits), 0};
  for (int64_t c = 0; c < classes; ++c) {
    ranks.of_label += logits[c] > logits[label] || (logits[c] == logits[label] && c < label);
  }
  return ranks;
}

kernels::SoftmaxCrossEntropy integer_row(const Tensor& logits, int64_t row, const int32_t* label) {
  const int64_t classes = logits.shape.last();
  return {logits.as<int32_t>() + row * classes, label, logits.row_exponent(row), classes};
}

std::vector<double> row_probabilities(const Tensor& logits, int64_t row,
                                      const kernels::SoftmaxKernels& softmax) {
  const int64_t classes = logits.shape.last();
  Tensor of_row = logits;
  of_row.shape = Shape{1, classes};
  of_row.data = logits.as<std::byte>() + row * classes * element_bytes(logits.type);
  if (logits.row_exponents != nullptr) of_row.row_exponents = logits.row_exponents + row;
  return probabilities_of(of_row, softmax);
}

// In nats.
double cross_entropy(const Tensor& logits, int64_t row, int label,
                     const kernels::SoftmaxKernels& softmax) {
  if (logits.type != DataType::kFloat) {
    const int32_t index = label;
    return nats_from_q24(softmax.loss(integer_row(logits, row, &index), 0, 1).loss_q24);
  }
  constexpr double kSmallest = 1e-300;
  return -std::log(std::max(row_probabilities(logits, row, softmax)[label], kSmallest));
}

}  // namespace

double output_at(const Tensor& outputs, int64_t i) {
  if (outputs.type == DataType::kFloat) return outputs.as<float>()[i];
  const ops::Mantissas mantissas(outputs);
  return std::ldexp(static_cast<double>(mantissas[i]),
                    outputs.row_exponent(i / outputs.shape.last()));
}

ClassificationEvaluation::ClassificationEvaluation(int64_t class_count)
    : classes(static_cast<size_t>(class_count)) {
  if (class_count > kConfusionClasses) return;
  const auto count = static_cast<size_t>(class_count);
  confusion.assign(count, std::vector<int64_t>(count, 0));
}

std::vector<double> probabilities_of(const Tensor& logits, const kernels::SoftmaxKernels& softmax) {
  const int64_t classes = logits.shape.last(), count = logits.count() / classes;
  std::vector<double> result(static_cast<size_t>(logits.count()));
  if (logits.type == DataType::kFloat) {
    ops::fp32::probabilities(logits.as<float>(), count, classes, result.data());
    return result;
  }
  std::vector<int32_t> q30(static_cast<size_t>(logits.count()));
  const int64_t alike = logits.row_exponents == nullptr ? count : 1;  // rows with one exponent
  for (int64_t row = 0; row < count; row += alike) {
    softmax.probabilities({logits.as<int32_t>(), nullptr, logits.row_exponent(row), classes},
                          q30.data(), row, row + alike);
  }
  std::transform(q30.begin(), q30.end(), result.begin(),
                 [](int32_t probability) { return probability * 0x1p-30; });
  return result;
}

std::optional<double> ClassificationEvaluation::top5_accuracy() const {
  if (std::ssize(classes) < kTop5Classes || labels || ordinal) return std::nullopt;
  return part(correct_in_5);
}

void ClassificationEvaluation::add(const Tensor& logits, const int32_t* batch_labels,
                                   std::span<const uint32_t> numbers, int64_t batch_loss_q24,
                                   const kernels::SoftmaxKernels& softmax,
                                   std::span<const int> guesses) {
  const int64_t count = logits.shape.last(), rows = logits.count() / count;
  of_places = of_places || rows > std::ssize(numbers);
  loss_q24 = accumulate(loss_q24, batch_loss_q24);  // a diverged network's may be huge
  for (int64_t i = 0; i < rows; ++i) {
    const int label = batch_labels[i];
    if (label < 0) continue;
    Ranks ranks = logits.type == DataType::kFloat
                            ? ranks_of(logits.as<float>() + i * count, count, label)
                            : ranks_of(logits.as<int32_t>() + i * count, count, label);
    if (!guesses.empty()) ranks.guess = guesses[static_cast<size_t>(i)];
    ++examples;
    ++classes[label].examples;
    ++classes[ranks.guess].guesses;
    classes[label].right += ranks.guess == label;
    if (!confusion.empty()) ++confusion[label][ranks.guess];
    correct += ranks.guess == label;
    correct_in_5 += ranks.of_label < 5;
    if (of_places) continue;
    const double lost = cross_entropy(logits, i, label, softmax);
    const int64_t number = numbers[static_cast<size_t>(i)];
    const auto comes_later = [&](const WorstPrediction& other) {
      return other.loss < lost || (other.loss == lost && other.index > number);
    };
    if (worst.size() == kWorstPredictions && !comes_later(worst.back())) continue;
    const auto place = std::ranges::find_if(worst, comes_later);
    const std::vector<double> probabilities = row_probabilities(logits, i, softmax);
    worst.insert(place, {numbers[static_cast<size_t>(i)], label, ranks.guess, lost,
                         probabilities[ranks.guess], probabilities[label]});
    if (worst.size() > kWorstPredictions) worst.pop_back();
  }
}

double iou_of(const ClassCounts& counts) {
  const int64_t all = counts.examples + counts.guesses - counts.right;
  return all > 0 ? static_cast<double>(counts.right) / static_cast<double>(all) : NAN;
}

double ClassificationEvaluation::mean_iou() const {
  double sum = 0;
  int64_t found = 0;
  for (const ClassCounts& counts : classes) {
    if (counts.examples + counts.guesses == 0) continue;
    sum += iou_of(counts);
    ++found;
  }
  return found > 0 ? sum / static_cast<double>(found) : 0;
}

ClassScore score_of(const ClassCounts& counts) {
  const auto part = [&](int64_t all) {
    return all > 0 ? static_cast<double>(counts.right) / static_cast<double>(all) : NAN;
  };
  return {part(counts.examples), part(counts.guesses)};
}

std::vector<ClassCounts> class_counts(const std::vector<std::vector<int64_t>>& confusion) {
  std::vector<ClassCounts> counts(confusion.size());
  for (size_t label = 0; label < confusion.size(); ++label) {
    for (size_t guess = 0; guess < confusion.size(); ++guess) {
      counts[label].examples += confusion[label][guess];
      counts[guess].guesses += confusion[label][guess];
    }
    counts[label].right = confusion[label][label];
  }
  return counts;
}

NamedScores named_scores(const BinaryScore& score) {
  return {{"auc", score.ranking.auc},
          {"average_precision", score.ranking.average_precision},
          {"precision", score.precision},
          {"recall", score.recall},
          {"f1", score.f1}};
}

NamedScores named_scores(const OrdinalScore& score) {
  return {{"rank_mae", score.mae}, {"quadratic_kappa", score.kappa}};
}

NamedScores named_scores(const LabelsScore& score) {
  return {{"micro_f1", score.micro_f1},
          {"macro_f1", score.macro_f1},
          {"mean_average_precision", score.mean_average_precision}};
}

std::string to_json(const ClassificationEvaluation& evaluation, const std::string& data,
                    const std::vector<std::string>& class_names, const std::string& model_sha256,
                    std::optional<double> seconds) {
  OrderedJson json = {{"data", data},
                      {"examples", evaluation.examples},
                      {"accuracy", evaluation.accuracy()},
                      {"loss", evaluation.loss}};
  if (const auto top5 = evaluation.top5_accuracy()) json["top5_accuracy"] = *top5;
  const auto add = [&](const NamedScores& scores) {
    for (const auto& [name, score] : scores) json[name] = score;
  };
  if (evaluation.binary) add(named_scores(*evaluation.binary));
  if (evaluation.ordinal) add(named_scores(*evaluation.ordinal));
  if (!evaluation.thresholds.empty()) json["thresholds"] = evaluation.thresholds;
  if (evaluation.labels) {
    add(named_scores(*evaluation.labels));
    json["label_accuracy"] = evaluation.labels->accuracy;
    json["label_f1"] = evaluation.labels->f1;
    json["label_average_precision"] = evaluation.labels->average_precision;
    json["label_auc"] = evaluation.labels->auc;
  }
  if (evaluation.of_places) {
    json["mean_iou"] = evaluation.mean_iou();
    json["class_iou"] = OrderedJson::array();
    for (const ClassCounts& counts : evaluation.classes) {
      json["class_iou"].push_back(iou_of(counts));
    }
  }
  if (seconds) json["seconds"] = *seconds;
  json["class_names"] = class_names;
  for (const char* name :
       {"class_examples", "class_guesses", "class_accuracy", "class_precision"}) {
    json[name] = OrderedJson::array();
  }
  for (const ClassCounts& counts : evaluation.classes) {
    const ClassScore score = score_of(counts);
    json["class_examples"].push_back(counts.examples);
    json["class_guesses"].push_back(counts.guesses);
    json["class_accuracy"].push_back(score.recall);
    json["class_precision"].push_back(score.precision);
  }
  if (!evaluation.confusion.empty()) json["confusion"] = evaluation.confusion;
  json["worst"] = OrderedJson::array();
  for (const WorstPrediction& one : evaluation.worst) {
    json["worst"].push_back({{"index", one.index},
                             {"label", one.label},
                             {"guess", one.guess},
                             {"loss", one.loss},
                             {"probability", one.probability},
                             {"label_probability", one.label_probability}});
  }
  json["model_sha256"] = model_sha256;
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace mantissa
