// The predict command: pictures or rows from files, or test examples, through a frozen network.
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <utility>

#include "api/inference/network_data.h"
#include "api/inference/prediction_csv.h"
#include "api/inference/predictor.h"
#include "api/outcome.h"
#include "api/settings/commands.h"
#include "api/settings/settings.h"
#include "api/target.h"
#include "base/files/atomic_file.h"
#include "data/pictures/picture_files.h"
#include "formats/arrays/npz.h"
#include "formats/pictures/image.h"
#include "infer/tasks/classification.h"
#include "infer/tasks/regression.h"
#include "mantissa/mantissa.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// "7" or "0-9".
Status parse_range(const std::string&, const std::string& text, PredictionConfig& config) {
  constexpr int64_t kMost = 1'000'000'000;
  const auto dash = text.find('-', 1);
  const auto refuse = [&] {
    return invalid_input("index: '" + text + "' is neither a number nor a range such as 0-9");
  };
  const auto first = parse_integer("index", text.substr(0, dash), 0, kMost);
  if (!first.ok()) return refuse();
  config.first_index = config.last_index = *first;
  if (dash != std::string::npos) {
    const auto last = parse_integer("index", text.substr(dash + 1), *first, kMost);
    if (!last.ok()) return refuse();
    config.last_index = *last;
  }
  constexpr int64_t kMostExamples = 10'000;
  if (config.last_index - config.first_index >= kMostExamples) {
    return invalid_input("index: '" + text + "' is more than " + std::to_string(kMostExamples) +
                         " examples");
  }
  return {};
}

constexpr SettingOf<PredictionConfig> kPredictRows[] = {
    kCheckpoint<PredictionConfig>,
    {"input",
     "PNG or JPEG pictures, or folders of them; a CSV file of rows; an NPZ file of x, or of inputs "
     "by their names; targets may be missing",
     "", parse_text<&PredictionConfig::input>, traits::kList},
    {"data", "data set whose test examples --index names (left out: that of the training)", "",
     parse_text<&PredictionConfig::data>},
    kIgnoreLabel<PredictionConfig>,
    {"index", "test examples: 7, or 0-9", "0", parse_range},
    {"csv", "file to write the predictions to as CSV (-: standard output)", "",
     parse_text<&PredictionConfig::csv>},
    {"raw",
     "NPZ file for the logits as they are: mantissas [N, classes], or [N, "
     "positions, classes], and their exponent; in fp32 "
     "logits, float32; of several outputs NAME.mantissas and so on",
     "", parse_text<&PredictionConfig::raw>},
    kThreads<PredictionConfig>,
    kIsa<PredictionConfig>};
constexpr CommandOf<PredictionConfig> kPredictCommand = {"predict", kPredictRows};

Result<PredictionConfig> prediction_config(Settings settings) {
  const bool names_examples = settings.contains("index") || settings.contains("data") ||
                              settings.contains("ignore-label");
  MANTISSA_ASSIGN(PredictionConfig config, read_settings(kPredictCommand, settings));
  if (!config.input.empty() && names_examples) {
    return invalid_input("give either --input, or --data, --index and --ignore-label");
  }
  MANTISSA_RETURN_IF_ERROR(find_checkpoint(config.checkpoint));
  return config;
}

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
  if (results.failure) predictor.result.problem.exit = Exit::kFailed;
  std::vector<Prediction> good;
  std::vector<uint8_t> pixels;
  for (size_t i = 0; i < all.size(); ++i) {
    if (results.errors[i].empty()) {
      pixels.insert(pixels.end(), all[i].pixels.begin(), all[i].pixels.end());
      good.push_back(std::move(all[i]));
    } else {
      predictor.result.problems.push_back(std::move(results.errors[i]));
    }
  }
  const std::vector<Label> unknown(good.size());
  return predictor.run(std::move(good), examples_of(picture_set(form, std::move(pixels), unknown)));
}

Status predict_inputs(const PredictionConfig& config, Predictor& predictor) {
  Predictions& result = predictor.result;
  Inputs inputs = list_inputs(config.input);
  const size_t count = inputs.files.size() + inputs.problems.size();
  if (count == 0) return invalid_input("--input: name a picture or a folder");
  const bool only_pictures = inputs.problems.empty();
  result.problems = std::move(inputs.problems);
  MANTISSA_ASSIGN(const DataOptions options, network_options(predictor.network, config));
  const std::span<const fs::path> all = inputs.files;
  for (size_t first = 0; first < all.size(); first += kPredictedAtOnce) {
    const size_t at_once = std::min<size_t>(kPredictedAtOnce, all.size() - first);
    MANTISSA_RETURN_IF_ERROR(predict_files(all.subspan(first, at_once), options, predictor));
  }
  if (result.problems.empty()) return {};
  const bool failed_to_read = result.problem.exit == Exit::kFailed;
  if (count == 1) {
    const std::string& problem = result.problems[0];
    return failed_to_read ? failed(problem) : invalid_input(problem);
  }
  if (!failed_to_read) result.problem.exit = Exit::kInvalidInput;
  result.problem.message = std::to_string(result.problems.size()) + " of " + std::to_string(count) +
                           (only_pictures ? " pictures" : " pictures and folders") +
                           " could not be read";
  return {};
}

Status check_targets(const PredictionConfig& config) {
  if (!config.csv.empty() && config.csv != "-") {
    MANTISSA_RETURN_IF_ERROR(check_target("csv", config.csv));
  }
  return config.raw.empty() ? Status{} : check_target("raw", config.raw);
}

// Appends the arrays of an output's results. `exponent` and `prefix` are of the output.
void add_arrays(const RawResults& raw, bool in_float, const Shape& shape, const int32_t& exponent,
                const std::string& prefix, std::vector<NpyView>& arrays) {
  std::vector<int64_t> dims = dims_of(shape);
  const auto numbers = in_float ? std::ssize(raw.logits) : std::ssize(raw.mantissas);
  dims.insert(dims.begin(), numbers / shape.count());
  if (in_float) {
    arrays.push_back({prefix + "logits", NpyType::kFloat, dims,
                      std::as_bytes(std::span(raw.logits))});
    return;
  }
  arrays.push_back({prefix + "mantissas", NpyType::kInt32, dims,
                    std::as_bytes(std::span(raw.mantissas))});
  arrays.push_back({prefix + "exponent", NpyType::kInt32, {},
                    std::as_bytes(std::span(&exponent, 1))});
}

Status write_raw(const std::string& path, const Predictor& predictor) {
  const Graph& graph = predictor.network.graph;
  std::vector<int32_t> exponents;
  for (const RawResults& raw : predictor.raw) exponents.push_back(raw.exponent);
  std::vector<NpyView> arrays;
  for (size_t k = 0; k < predictor.raw.size(); ++k) {
    const ModelOptions& output = predictor.outputs[k].options;
    const Shape& shape = graph.values[graph.outputs[output.result]].shape;
    add_arrays(predictor.raw[k], predictor.outputs[k].format.is_float(), shape, exponents[k],
               output.labels.empty() ? "" : output.labels + ".", arrays);
  }
  return write_npz(path, arrays);
}

// The names of an output's classes or numbers.
void describe_output(const FrozenDescription& output, Predictions& result) {
  const ModelOptions& options = output.options;
  result.class_names = output.class_names;
  result.has_labels = options.loss == ops::LossKind::kSigmoids && !options.one_logit;
  result.several_labels = options.has_labels;
  result.labels_in_order = options.loss == ops::LossKind::kCtc;
  const Target target = target_of(output);
  result.target = target_names(target);
  for (const TargetNumber& number : target.numbers) result.targets.push_back(number.column);
  result.output = options.labels;
}

}  // namespace

CommandInfo predict_command() { return info_of<kPredictCommand>(); }

Outcome<Predictions> predict(const Settings& settings) {
  MANTISSA_ASSIGN(const PredictionConfig config, prediction_config(settings));
  MANTISSA_RETURN_IF_ERROR(check_targets(config));
  MANTISSA_ASSIGN(FrozenNetwork network, load_frozen(config.checkpoint));
  MANTISSA_RETURN_IF_ERROR(check_examples(network, config.checkpoint));
  Predictions result;
  const std::vector<FrozenDescription> outputs = output_descriptions(network.description);
  if (outputs.size() == 1) describe_output(outputs[0], result);
  for (size_t k = 0; outputs.size() > 1 && k < outputs.size(); ++k) {
    describe_output(outputs[k], result.outputs.emplace_back());
  }
  ThreadPool pool(config.threads);
  if (std::string shortage = pool.shortage(); !shortage.empty()) {
    result.notes.push_back(std::move(shortage));
  }
  Predictor predictor{network, pool, config.isa, result, outputs,
                      std::vector<RawResults>(outputs.size())};
  MANTISSA_RETURN_IF_ERROR(config.input.empty()        ? predict_examples(config, predictor)
                           : predictor.takes_arrays()  ? predict_arrays(config, predictor)
                           : network.description.table ? predict_rows(config, predictor)
                           : names_arrays(config)      ? predict_picture_arrays(config, predictor)
                                                       : predict_inputs(config, predictor));
  if (!config.raw.empty()) MANTISSA_RETURN_IF_ERROR(write_raw(config.raw, predictor));
  if (config.csv.empty()) return result;
  result.csv = prediction_csv(result);
  if (config.csv != "-") MANTISSA_RETURN_IF_ERROR(write_text_atomically(config.csv, result.csv));
  return result;
}

}  // namespace mantissa
