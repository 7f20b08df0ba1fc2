#include "api/inference/predictor.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "data/tables/table_encoder.h"
#include "data/tables/table_rows.h"
#include "infer/tasks/classification.h"
#include "networks/network.h"

namespace mantissa {
namespace {

constexpr size_t kPredictionPixels = 256;  // of more predictions the pixels are not kept

// "line 7", or with the file's name if there are several.
std::string source_of(const TableRows& rows, const std::string& file, bool several) {
  const std::string place = rows.place(), line = place.substr(place.rfind(", ") + 2);
  return several ? file + ", " + line : line;
}

// The target of a row, if it has one that the network knows.
void take_target(TableEncoder& encoder, std::span<const TableField> row, Prediction& prediction) {
  const auto target = encoder.target(row);
  if (!target.ok() || !target->is_known) return;
  prediction.label = static_cast<int>(target->label);
  prediction.true_labels.assign(target->labels.begin(), target->labels.end());
  prediction.truths = target->numbers;
  if (!target->numbers.empty()) prediction.truth = target->numbers[0];
}

Status predict_file(const std::string& file, bool several, Predictor& predictor) {
  const TableSchema& schema = *predictor.network.description.table;
  MANTISSA_ASSIGN(const auto rows, open_csv_rows(file, schema.file_format()));
  MANTISSA_ASSIGN(TableEncoder encoder, TableEncoder::create(schema, *rows));
  ExampleSet set = row_set(schema, false);
  set.tensors.resize(1);  // targets are unknown
  auto& inputs = set.tensors[0].as<int16_t>();
  std::vector<Prediction> batch;
  while (true) {
    MANTISSA_ASSIGN(const auto row, rows->next());
    if (!row.empty()) {
      MANTISSA_RETURN_IF_ERROR(encoder.append_inputs(row, inputs));
      Prediction prediction{.source = source_of(*rows, file, several)};
      take_target(encoder, row, prediction);
      batch.push_back(std::move(prediction));
      if (std::ssize(batch) < kPredictedAtOnce) continue;
    }
    set.count = std::ssize(batch);
    MANTISSA_RETURN_IF_ERROR(predictor.run(std::exchange(batch, {}), examples_of(set)));
    inputs.clear();
    if (row.empty()) break;
  }
  for (const std::string& note : encoder.notes()) {
    predictor.result.notes.push_back("'" + file + "': " + note);
  }
  return {};
}

// The part of an example's places that each class was guessed for.
std::vector<double> guessed_parts(const std::vector<double>& probabilities, int64_t first,
                                  int64_t places, int64_t classes) {
  std::vector<double> parts(static_cast<size_t>(classes), 0);
  for (int64_t place = first; place < first + places; ++place) {
    const auto row = probabilities.begin() + place * classes;
    parts[static_cast<size_t>(std::max_element(row, row + classes) - row)] +=
        1 / static_cast<double>(places);
  }
  return parts;
}

// The most probable class, or of two classes the second above its threshold. Of labels also those
// above their thresholds.
void take_guess(const Classified& found, int64_t i, const FrozenDescription& description,
                Prediction& one) {
  const auto best = std::max_element(one.probabilities.begin(), one.probabilities.end());
  one.guess = static_cast<int>(best - one.probabilities.begin());
  if (!found.guesses.empty()) one.guess = found.guesses[static_cast<size_t>(i)];
  if (found.scores.empty()) return;
  const auto count = static_cast<int64_t>(threshold_count(description.options));
  std::vector<int> above;
  for (int64_t k = 0; k < count; ++k) {
    const double threshold = description.thresholds.empty() ? 0 : description.thresholds[k];
    if (found.scores[i * count + k] > threshold) above.push_back(static_cast<int>(k));
  }
  if (count > 1 || description.options.classes != 2) {
    one.labels = std::move(above);
  } else if (!description.thresholds.empty()) {
    one.guess = above.empty() ? 0 : 1;
  }
}

}  // namespace

Status Predictor::run(std::vector<Prediction> batch, const Examples& examples) {
  const auto count = static_cast<int64_t>(batch.size());
  if (count == 0) return {};
  MANTISSA_ASSIGN(const Classified found, classify(network, examples, pool, isa));
  mantissas.insert(mantissas.end(), found.mantissas.begin(), found.mantissas.end());
  exponent = found.exponent;
  logits.insert(logits.end(), found.logits.begin(), found.logits.end());
  const std::vector<double>& all = found.probabilities;
  const int64_t classes = network.description.options.classes;
  const int64_t places = label_shape_of_places(network.description.network).count();
  for (int64_t i = 0; i < count; ++i) {
    Prediction& one = batch[static_cast<size_t>(i)];
    if (result.target.empty()) {
      one.probabilities = places > 1 ? guessed_parts(all, i * places, places, classes)
                                     : std::vector<double>(all.begin() + i * classes,
                                                           all.begin() + (i + 1) * classes);
      take_guess(found, i, network.description, one);
    } else {
      const auto numbers = std::ssize(found.numbers) / count;
      one.numbers.assign(found.numbers.begin() + i * numbers,
                         found.numbers.begin() + (i + 1) * numbers);
      one.number = one.numbers[0];
    }
    if (result.predictions.size() >= kPredictionPixels) one.pixels = {};
    result.predictions.push_back(std::move(one));
  }
  return {};
}

Status predict_rows(const PredictionConfig& config, Predictor& predictor) {
  std::vector<std::string> files;
  std::istringstream lines(config.input);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) files.push_back(line);
  }
  if (files.empty()) return invalid_input("--input: name a CSV file");
  for (const std::string& file : files) {
    MANTISSA_RETURN_IF_ERROR(predict_file(file, files.size() > 1, predictor));
  }
  if (!predictor.result.predictions.empty()) return {};
  return invalid_input("--input: there are no rows in " + files[0]);
}

}  // namespace mantissa
