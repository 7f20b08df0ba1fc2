#include "api/inference/predictor.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <utility>

#include "data/arrays/named_arrays.h"
#include "data/readers/picture_column.h"
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
  set.tensors.resize(schema.picture ? 2 : 1);  // targets are unknown
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  size_t picture = 0;  // its column
  std::vector<std::string> pictures;
  if (schema.picture) {
    MANTISSA_ASSIGN(picture,
                    find_column(rows->names(), schema.picture->name, rows->place() + ": "));
  }
  auto& inputs = set.tensors[0].as<int16_t>();
  std::vector<Prediction> batch;
  while (true) {
    MANTISSA_ASSIGN(const auto row, rows->next());
    if (!row.empty()) {
      MANTISSA_RETURN_IF_ERROR(encoder.append_inputs(row, inputs));
      Prediction prediction{.source = source_of(*rows, file, several)};
      take_target(encoder, row, prediction);
      if (schema.picture) {
        MANTISSA_ASSIGN(std::string path, picture_path(row[picture], *schema.picture, *rows));
        pictures.push_back(std::move(path));
      }
      batch.push_back(std::move(prediction));
      if (std::ssize(batch) < kPredictedAtOnce) continue;
    }
    set.count = std::ssize(batch);
    if (schema.picture) {
      auto& pixels = set.tensors[1].as<uint8_t>();
      pixels.clear();
      MANTISSA_RETURN_IF_ERROR(append_pictures(folder, pictures, *schema.picture,
                                               predictor.pool.size(), pixels));
      pictures.clear();
    }
    MANTISSA_RETURN_IF_ERROR(predictor.run(std::exchange(batch, {}), examples_of(set)));
    inputs.clear();
    if (row.empty()) break;
  }
  for (const std::string& note : encoder.notes()) {
    predictor.result.notes.push_back("'" + file + "': " + note);
  }
  return {};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) all.push_back(line);
  }
  return all;
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

bool Predictor::takes_arrays() const {
  const auto& table = network.description.table;
  return table && table->has_named_inputs();
}

Status predict_arrays(const PredictionConfig& config, Predictor& predictor) {
  const std::vector<std::string> files = lines_of(config.input);
  if (files.empty()) return invalid_input("--input: name an NPZ file");
  for (const std::string& file : files) {
    MANTISSA_ASSIGN(const ExampleSet set,
                    read_named_inputs(file, *predictor.network.description.table,
                                      {.notes = &predictor.result.notes}));
    const Examples examples = examples_of(set);
    for (int64_t first = 0; first < set.count; first += kPredictedAtOnce) {
      const int64_t count = std::min(kPredictedAtOnce, set.count - first);
      std::vector<Prediction> batch;
      for (int64_t i = first; i < first + count; ++i) {
        const std::string row = "row " + std::to_string(i);
        batch.push_back({.source = files.size() > 1 ? file + ", " + row : row});
      }
      MANTISSA_RETURN_IF_ERROR(
          predictor.run(std::move(batch), examples_from(first, count, examples)));
    }
  }
  if (!predictor.result.predictions.empty()) return {};
  return invalid_input("--input: there are no examples in " + files[0]);
}

Status predict_rows(const PredictionConfig& config, Predictor& predictor) {
  const std::vector<std::string> files = lines_of(config.input);
  if (files.empty()) return invalid_input("--input: name a CSV file");
  for (const std::string& file : files) {
    MANTISSA_RETURN_IF_ERROR(predict_file(file, files.size() > 1, predictor));
  }
  if (!predictor.result.predictions.empty()) return {};
  return invalid_input("--input: there are no rows in " + files[0]);
}

}  // namespace mantissa
