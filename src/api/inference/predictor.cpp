#include "api/inference/predictor.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <utility>

#include "api/inference/network_data.h"
#include "data/arrays/array_files.h"
#include "data/arrays/array_pictures.h"
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

void set_truth(const TableTarget& target, Prediction& prediction) {
  prediction.label = static_cast<int>(target.label);
  prediction.true_labels.assign(target.labels.begin(), target.labels.end());
  prediction.truths = target.numbers;
  if (!target.numbers.empty()) prediction.truth = target.numbers[0];
  for (const TableTarget& output : target.outputs) {
    set_truth(output, prediction.outputs.emplace_back());
  }
}

// The target of a row, if it has one that the network knows.
void take_target(TableEncoder& encoder, std::span<const TableField> row, Prediction& prediction) {
  const auto target = encoder.target(row);
  if (target.ok() && target->is_known) set_truth(*target, prediction);
}

// The rows of a CSV file, or of arrays.
Result<std::unique_ptr<TableRows>> open_rows(const std::string& file, const TableFormat& format) {
  if (!is_array_file(file)) return open_csv_rows(file, format);
  MANTISSA_ASSIGN(ArrayPair pair, read_inputs(file));
  return array_rows(quoted(std::filesystem::path(file)), std::move(pair.x), std::move(pair.y),
                    format);
}

Status predict_file(const std::string& file, bool several, Predictor& predictor) {
  const TableSchema& schema = *predictor.network.description.table;
  MANTISSA_ASSIGN(const auto rows, open_rows(file, schema.file_format()));
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

// The meaning of a row of results.
struct Guess {
  int best = 0;
  std::vector<int> labels = {};  // of labels: those above their thresholds
};

// The most probable class, or of two classes the second above its threshold. Of labels also those
// above their thresholds.
Guess guess_of(const Classified& found, int64_t row, const FrozenDescription& description) {
  const int64_t classes = description.options.classes;
  const auto first = found.probabilities.begin() + row * classes;
  Guess guess{static_cast<int>(std::max_element(first, first + classes) - first)};
  if (!found.guesses.empty()) guess.best = found.guesses[static_cast<size_t>(row)];
  if (found.scores.empty()) return guess;
  const auto count = static_cast<int64_t>(threshold_count(description.options));
  std::vector<int> above;
  for (int64_t k = 0; k < count; ++k) {
    const double threshold = description.thresholds.empty() ? 0 : description.thresholds[k];
    if (found.scores[row * count + k] > threshold) above.push_back(static_cast<int>(k));
  }
  if (count > 1 || classes != 2) {
    guess.labels = std::move(above);
  } else if (!description.thresholds.empty()) {
    guess.best = above.empty() ? 0 : 1;
  }
  return guess;
}

// In place of probabilities: the part of an example's places that each class was guessed for, or
// each label. The guess is the class of most places; labels are those of any.
void take_places(const Classified& found, int64_t first, int64_t places,
                 const FrozenDescription& description, Prediction& one) {
  const ModelOptions& options = description.options;
  const bool are_labels = options.loss == ops::LossKind::kSigmoids && !options.one_logit;
  std::vector<int64_t> counts(static_cast<size_t>(options.classes), 0);
  for (int64_t place = first; place < first + places; ++place) {
    const Guess guess = guess_of(found, place, description);
    if (!are_labels) ++counts[static_cast<size_t>(guess.best)];
    for (const int label : guess.labels) ++counts[static_cast<size_t>(label)];
  }
  for (size_t k = 0; k < counts.size(); ++k) {
    one.probabilities.push_back(static_cast<double>(counts[k]) / static_cast<double>(places));
    if (are_labels && counts[k] > 0) one.labels.push_back(static_cast<int>(k));
  }
  one.guess = static_cast<int>(std::max_element(counts.begin(), counts.end()) - counts.begin());
}

// Writes an output's prediction for the i-th of `count` examples, which have `places` each.
void take_results(const Classified& found, int64_t i, int64_t count, int64_t places,
                  const FrozenDescription& description, Prediction& one) {
  const int64_t classes = description.options.classes;
  if (!found.sequences.empty()) {
    one.labels = found.sequences[static_cast<size_t>(i)];
  } else if (ops::is_for_numbers(description.options.loss)) {
    const auto numbers = std::ssize(found.numbers) / count;
    one.numbers.assign(found.numbers.begin() + i * numbers,
                       found.numbers.begin() + (i + 1) * numbers);
    one.number = one.numbers[0];
  } else if (places > 1) {
    take_places(found, i * places, places, description, one);
  } else {
    const auto first = found.probabilities.begin() + i * classes;
    one.probabilities.assign(first, first + classes);
    Guess guess = guess_of(found, i, description);
    one.guess = guess.best;
    one.labels = std::move(guess.labels);
  }
}

}  // namespace

Status Predictor::run(std::vector<Prediction> batch, const Examples& examples) {
  const auto count = static_cast<int64_t>(batch.size());
  if (count == 0) return {};
  MANTISSA_ASSIGN(const std::vector<Classified> found,
                  classify_outputs(network, outputs, examples, pool, isa));
  for (size_t k = 0; k < found.size(); ++k) {
    RawResults& all = raw[k];
    const Classified& own = found[k];
    all.mantissas.insert(all.mantissas.end(), own.mantissas.begin(), own.mantissas.end());
    all.exponent = own.exponent;
    all.logits.insert(all.logits.end(), own.logits.begin(), own.logits.end());
  }
  const int64_t places = label_shape_of_places(network.description.network).count();
  for (int64_t i = 0; i < count; ++i) {
    Prediction& one = batch[static_cast<size_t>(i)];
    if (found.size() > 1) one.outputs.resize(found.size());
    for (size_t k = 0; k < found.size(); ++k) {
      take_results(found[k], i, count, places, outputs[k],
                   found.size() > 1 ? one.outputs[k] : one);
    }
    if (result.predictions.size() >= kPredictionPixels) one.pixels = {};
    result.predictions.push_back(std::move(one));
  }
  return {};
}

bool Predictor::takes_arrays() const {
  const auto& table = network.description.table;
  return table && (table->has_named_inputs() || table->is_shaped());
}

bool names_arrays(const PredictionConfig& config) {
  const std::vector<std::string> files = lines_of(config.input);
  return !files.empty() && std::all_of(files.begin(), files.end(), is_array_file);
}

namespace {

// With the name of the one input of positions or pictures of numbers.
TableSchema with_input_name(TableSchema schema) {
  if (!schema.is_shaped()) return schema;
  schema.inputs = {{.name = kNumberTensor,
                    .shape = schema.shape,
                    .channels_first = schema.channels_first,
                    .columns = schema.columns}};
  return schema;
}

// Predicts the examples of all files; `read` reads one file.
template <typename Read>
Status predict_sets(const PredictionConfig& config, Predictor& predictor, const Read& read) {
  const std::vector<std::string> files = lines_of(config.input);
  if (files.empty()) return invalid_input("--input: name an NPZ file");
  for (const std::string& file : files) {
    MANTISSA_ASSIGN(const ExampleSet set, read(file));
    const Examples examples = inputs_of(set);
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

}  // namespace

Status predict_arrays(const PredictionConfig& config, Predictor& predictor) {
  const TableSchema schema = with_input_name(*predictor.network.description.table);
  return predict_sets(config, predictor, [&](const std::string& file) {
    return read_named_inputs(file, schema, {.form = {}, .notes = &predictor.result.notes});
  });
}

Status predict_picture_arrays(const PredictionConfig& config, Predictor& predictor) {
  MANTISSA_ASSIGN(const DataOptions options, network_options(predictor.network, config));
  const PictureForm form = {options.size.height, options.size.width, options.channels};
  return predict_sets(config, predictor,
                      [&](const std::string& file) { return read_new_pictures(file, form); });
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
