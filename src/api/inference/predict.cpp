// The predict command: pictures or rows from files, or test examples, through a frozen network.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <utility>

#include "api/inference/network_data.h"
#include "api/inference/prediction_csv.h"
#include "api/inference/predictor.h"
#include "api/outcome.h"
#include "api/settings/settings.h"
#include "api/target.h"
#include "base/files/atomic_file.h"
#include "data/datasets/readers.h"
#include "data/pictures/picture_files.h"
#include "formats/arrays/npz.h"
#include "formats/pictures/image.h"
#include "mantissa/mantissa.h"
#include "tensor/table_numbers.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// The requested pictures, and a line for each folder that has none.
struct Inputs {
  std::vector<fs::path> files;
  std::vector<std::string> problems;
};

// Each line of `input` names a file, or a folder: all pictures below it.
Inputs list_inputs(const std::string& input) {
  Inputs inputs;
  std::istringstream lines(input);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    if (!is_folder(line)) {
      inputs.files.emplace_back(line);
      continue;
    }
    Result<PictureFiles> found = find_pictures(line);
    if (!found.ok()) {
      inputs.problems.push_back(found.error().message);
    } else if (found->files.empty()) {
      inputs.problems.push_back("'" + line + "': no .png, .jpg or .jpeg files are in this folder");
    } else {
      for (const std::string& file : found->files) inputs.files.push_back(fs::path(line) / file);
    }
  }
  return inputs;
}

// How many threads may decode these files at once.
int decoding_threads(std::span<const fs::path> files, int threads) {
  std::vector<int64_t> bytes(files.size(), 0);
  for_each_picture(static_cast<int64_t>(files.size()), threads, [&](int64_t i) -> Status {
    MANTISSA_ASSIGN(const ImageHeader header, read_image_header(files[i]));
    bytes[i] = header.decoding_bytes;
    return {};
  });
  return reading_threads(*std::max_element(bytes.begin(), bytes.end()), threads);
}

// A picture, not yet predicted.
Prediction with_pixels(std::string source, const PictureForm& form, std::vector<uint8_t> pixels) {
  return {.source = std::move(source),
          .height = form.height,
          .width = form.width,
          .channels = form.channels,
          .pixels = std::move(pixels)};
}

// Reads and predicts some files; those that cannot be read are listed.
Status predict_files(std::span<const fs::path> files, const DataOptions& options,
                     Predictor& predictor) {
  const PictureForm form = {options.size.height, options.size.width, options.channels};
  std::vector<Prediction> all(files.size());
  PictureResults results = for_each_picture(
      static_cast<int64_t>(files.size()), decoding_threads(files, options.threads),
      [&](int64_t i) -> Status {
        MANTISSA_ASSIGN(const Image image, read_image(files[i], static_cast<int>(form.channels)));
        std::vector<uint8_t> pixels(static_cast<size_t>(form.bytes()));
        fit_picture(image.pixels.data(), {image.height, image.width, image.channels}, form,
                    pixels.data());
        all[i] = with_pixels(files[i].string(), form, std::move(pixels));
        return {};
      });
  if (results.failure) predictor.outcome.exit = Exit::kFailed;
  std::vector<Prediction> good;
  std::vector<uint8_t> pixels;
  for (size_t i = 0; i < all.size(); ++i) {
    if (results.errors[i].empty()) {
      pixels.insert(pixels.end(), all[i].pixels.begin(), all[i].pixels.end());
      good.push_back(std::move(all[i]));
    } else {
      predictor.outcome.problems.push_back(std::move(results.errors[i]));
    }
  }
  const std::vector<Label> unknown(good.size());
  return predictor.run(std::move(good), examples_of(picture_set(form, std::move(pixels), unknown)));
}

Status predict_inputs(const InferenceConfig& config, Predictor& predictor) {
  PredictionOutcome& outcome = predictor.outcome;
  Inputs inputs = list_inputs(config.input);
  const size_t count = inputs.files.size() + inputs.problems.size();
  if (count == 0) return invalid_input("--input: name a picture or a folder");
  const bool only_pictures = inputs.problems.empty();
  outcome.problems = std::move(inputs.problems);
  MANTISSA_ASSIGN(const DataOptions options, network_options(predictor.network, config.threads));
  const std::span<const fs::path> all = inputs.files;
  for (size_t first = 0; first < all.size(); first += kPredictedAtOnce) {
    const size_t at_once = std::min<size_t>(kPredictedAtOnce, all.size() - first);
    MANTISSA_RETURN_IF_ERROR(predict_files(all.subspan(first, at_once), options, predictor));
  }
  if (outcome.problems.empty()) return {};
  const bool failed_to_read = outcome.exit == Exit::kFailed;
  if (count == 1) {
    const std::string& problem = outcome.problems[0];
    return failed_to_read ? failed(problem) : invalid_input(problem);
  }
  if (!failed_to_read) outcome.exit = Exit::kInvalidInput;
  outcome.error = std::to_string(outcome.problems.size()) + " of " + std::to_string(count) +
                  (only_pictures ? " pictures" : " pictures and folders") + " could not be read";
  return {};
}

// A test example, not yet predicted.
Prediction test_example(const Dataset& data, int64_t i) {
  const Target& target = data.info.target;
  const ExampleSet& test = data.test;
  const auto at = static_cast<size_t>(i);
  const PictureForm form = test.picture_form();
  const auto first = test.pixels().begin() + i * form.bytes();
  Prediction example =
      with_pixels("test " + std::to_string(i), form, {first, first + form.bytes()});
  if (target.is_number()) {
    const int16_t mantissa = test.numbers<int16_t>(kTargetTensor)[at];
    example.truth = std::ldexp(mantissa, kTargetExponent) * target.deviation + target.mean;
  } else {
    example.label = test.labels()[at];
  }
  return example;
}

Status predict_examples(const InferenceConfig& config, Predictor& predictor) {
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

Status check_targets(const InferenceConfig& config) {
  if (!config.csv.empty() && config.csv != "-") {
    MANTISSA_RETURN_IF_ERROR(check_target("csv", config.csv));
  }
  return config.raw.empty() ? Status{} : check_target("raw", config.raw);
}

Status write_raw(const std::string& path, const Predictor& predictor) {
  const int64_t classes = predictor.network.graph.classes();
  const int32_t exponent = predictor.exponent;
  const auto count = std::ssize(predictor.mantissas) / classes;
  const NpyView arrays[] = {
      {"mantissas",
       NpyType::kInt32,
       {count, classes},
       std::as_bytes(std::span(predictor.mantissas))},
      {"exponent", NpyType::kInt32, {}, std::as_bytes(std::span(&exponent, 1))}};
  return write_npz(path, arrays);
}

Status run_prediction(const Settings& settings, PredictionOutcome& outcome) {
  MANTISSA_ASSIGN(const InferenceConfig config, inference_config("predict", settings));
  MANTISSA_RETURN_IF_ERROR(check_targets(config));
  MANTISSA_ASSIGN(FrozenNetwork network, load_frozen(config.checkpoint));
  if (!config.raw.empty() && network.description.format.is_float()) {
    return invalid_input("--raw: " + config.checkpoint +
                         " computes in fp32: its logits are no integers");
  }
  MANTISSA_RETURN_IF_ERROR(check_examples(network, config.checkpoint));
  outcome.class_names = network.description.class_names;
  outcome.target = target_of(network.description).column;
  ThreadPool pool(config.threads);
  if (std::string shortage = pool.shortage(); !shortage.empty()) {
    outcome.notes.push_back(std::move(shortage));
  }
  Predictor predictor{network, pool, config.isa, outcome};
  MANTISSA_RETURN_IF_ERROR(config.input.empty()        ? predict_examples(config, predictor)
                           : network.description.table ? predict_rows(config, predictor)
                                                       : predict_inputs(config, predictor));
  if (!config.raw.empty()) MANTISSA_RETURN_IF_ERROR(write_raw(config.raw, predictor));
  if (config.csv.empty()) return {};
  outcome.csv = prediction_csv(outcome);
  if (config.csv == "-") return {};
  return write_text_atomically(config.csv, outcome.csv);
}

}  // namespace

PredictionOutcome predict(const Settings& settings) {
  PredictionOutcome outcome;
  const Status status = run_prediction(settings, outcome);
  return status.ok() ? outcome : refused<PredictionOutcome>(status.error());
}

}  // namespace mantissa
