// Mantissa's public interface: train, evaluate, predict and plan integer networks.
//
// Settings are named as on the command line (without the dashes) and given as text, so that a
// program, a configuration file and a command line say the same thing:
//
//   mantissa::Settings settings = {{"model", "resnet8"}, {"data", "fashion-mnist"},
//                                  {"epochs", "3"}, {"out", "runs/a"}};
//   mantissa::Outcome<mantissa::TrainedRun> run = mantissa::train(settings);
//   if (!run.ok()) { ... run.error() ... }
//   std::puts(run->summary_json.c_str());
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mantissa/deprecated.h"
#include "mantissa/export.h"
#include "mantissa/outcome.h"

namespace mantissa {

using Settings = std::map<std::string, std::string>;

// A setting of a command: its name, its meaning, and its default.
struct SettingInfo {
  std::string name;
  std::string help;
  std::string default_value;
  bool is_switch = false;  // takes no value on the command line
  bool is_list = false;    // may have several values; in Settings one a line
};

// Settings of a command: "train", "eval", "predict", "plan", "bench", "profile", "data",
// "report", "statistics", "info", "quantize", "import", "embed", "fill-mask", "translate",
// "export", "run". Empty for an unknown command.
MANTISSA_EXPORT std::vector<SettingInfo> settings_of(const std::string& command);

// Built-in networks: name and a line about each.
MANTISSA_EXPORT std::vector<std::pair<std::string, std::string>> built_in_models();

struct NetworkDescription {
  std::string json;  // docs/networks.md
};

// The network that a run with these settings of "info" would train ("model": a name or a file).
// With "path" alone: the network of a run's folder or of a model.safetensors file.
MANTISSA_EXPORT Outcome<NetworkDescription> describe_network(const Settings& settings);

// The progress of a run, for people.
struct Progress {
  enum class Kind {
    kStarting,  // before the first step: nothing to show yet, but it can be stopped
    kStep,
    kCheckpoint,
    kPretraining,
    kReestimating,  // the statistics of batch norms
    kValidating,
    kEvaluating,
    kTranslating,
    kMessage
  } kind = Kind::kStep;
  int64_t step = 0, steps = 0;  // done, in all (from kValidating on: examples)
  int64_t epoch = 0, epochs = 0;
  // Means since the last report. Accuracy is -1 if numbers are predicted.
  double loss = 0, accuracy = 0;
  double learning_rate = 0;
  double examples_per_second = 0;
  double seconds_left = 0;
  std::string message;  // a path for kCheckpoint, a line for kMessage
};

// Called from the calling thread of train/evaluate. Return false to stop. Training then finishes
// its step and the validation that belongs to it, writes a checkpoint and returns kInterrupted.
// Stopped before its first step (kStarting), it leaves everything as it was.
using Observer = std::function<bool(const Progress&)>;

struct TrainedRun {
  std::string summary_json;       // the content of summary.json
  std::string plan_text;          // memory: one line per kind, and the planned peak
  bool already_finished = false;  // --resume of a finished run
};

// Trains, freezes and evaluates a network. Writes config.toml, metrics.jsonl, checkpoints,
// model.safetensors and summary.json under "out". If an MPI launcher started several processes, all
// of them call it: the first one is the run, the others work for it and get an empty result.
MANTISSA_EXPORT Outcome<TrainedRun> train(const Settings& settings,
                                          const Observer& observer = nullptr);

// The rank of this process among the processes that an MPI launcher started; 0: the first, or the
// only one.
MANTISSA_EXPORT int launched_process();

struct QuantisedLayerInfo {
  std::string name;
  int weight_bits = 8, activation_bits = 8;
  bool any_scale = false;       // else its scales are powers of two
  double weight_error = 0;      // root mean square, relative; 0 with 8 bits
  double activation_error = 0;  // the same of its input
  double range = 0;             // of its input; 0 with 8 bits
  double offset = 0;            // the start of this range; it ends at offset + range
  bool is_signed = false;       // its input has negative numbers
};

struct QuantisedRun : TrainedRun {
  std::vector<QuantisedLayerInfo> layers;  // empty if a run goes on
};

// Quantises the network of "from" to few bits, by post-training quantisation, and trains it on from
// there. Writes a run's folder under "out", as train does. docs/quantisation.md.
MANTISSA_EXPORT Outcome<QuantisedRun> quantize_network(const Settings& settings,
                                                       const Observer& observer = nullptr);

// One layer quantised alone: the validation loss of the network then, and this layer's share of the
// sum of all rises of the loss.
struct LayerSensitivity {
  QuantisedLayerInfo layer;
  double loss = 0, accuracy = 0;
  double share = 0;
};

// Keeping these layers at 8 bits wins back the part `won_back` of all rises, and costs `more_bytes`
// of weights.
struct SensitivityAdvice {
  std::vector<std::string> layers;
  double won_back = 0;
  int64_t more_bytes = 0;
};

struct Sensitivity {
  double loss = 0, accuracy = 0;  // with 8 bits everywhere; accuracy -1 if numbers are predicted
  int64_t examples = 0;           // validation examples
  std::vector<LayerSensitivity> layers;  // the largest rise first
  std::vector<SensitivityAdvice> advice;
};

// With the settings of quantize: the cost of few bits, layer by layer. Writes nothing.
MANTISSA_EXPORT Outcome<Sensitivity> layer_sensitivity(const Settings& settings,
                                                       const Observer& observer = nullptr);

// How far the predictions of a number are from it.
struct NumberEvaluation {
  std::string target;
  double r2 = 0, rmse = 0, mae = 0;
};

struct Evaluation {
  std::string json;  // everything that "out" gets, and the seconds
  int64_t examples = 0;
  double accuracy = 0;        // fraction
  double top5_accuracy = -1;  // fraction; -1 with fewer than ten classes
  double loss = 0;            // mean cross-entropy in nats, or squared error, as trained
  double seconds = 0;
  // For language models only (their examples are tokens); else below 0. `loss` is in nats a token.
  double bits_per_token = -1, perplexity = -1;
  bool has_bytes = false;  // tokens are bytes, not characters
  // The loss in bits, divided among the characters (or bytes) of the text. If tokens are pieces of
  // words, a token has several characters.
  double bits_per_character = 0;
  double bits_per_byte = -1;  // by the bytes of UTF-8; below 0: it does not go on with texts
  // For networks that translate: how near translations are to references, 0-100; else below 0.
  double bleu = -1, chrf = -1;
  std::vector<std::string> class_names;
  std::vector<std::vector<int64_t>> confusion;  // [label][prediction]; empty with over 256 classes
  std::string model_sha256;
  // If numbers are predicted: the name of the target, and how far predictions are from it, in place
  // of accuracy and confusion. The loss is in units of the variance of training targets.
  std::string target;
  double r2 = 0, rmse = 0, mae = 0;
  // One entry for each number. With several, `target` is "a, b", and the three above are means.
  std::vector<NumberEvaluation> targets;
  // The results of each output, if the network has several. `loss` is the sum of their losses then,
  // and nothing counts as accurate.
  std::vector<Evaluation> outputs = {};
  std::string output = {};  // the name of such an output
};

// Evaluates the frozen network of a run (or a model.safetensors file) on the test split. Writes the
// JSON to "out" if that is given.
MANTISSA_EXPORT Outcome<Evaluation> evaluate(const Settings& settings,
                                             const Observer& observer = nullptr);

struct Prediction {
  std::string source;  // file name, "line 7" of a table, or "test 7"
  int label = -1;      // true class, -1 if unknown
  int guess = -1;
  std::vector<double> probabilities = {};  // per class
  // The guessed labels, if labels do not exclude one another. If labels are in an order: the
  // ones that are found.
  std::vector<int> labels = {};
  int64_t height = 0, width = 0, channels = 0;
  // [height][width][channels], as the network saw it; of the first 256 predictions only.
  std::vector<uint8_t> pixels = {};
  // In place of classes, if numbers are predicted.
  double number = 0;
  std::optional<double> truth = std::nullopt;
  // The same of several: all numbers, and all true ones if they are known.
  std::vector<double> numbers = {}, truths = {};
  // 0 or 1 for each label, or the labels in their order, if they are known.
  std::vector<int> true_labels = {};
  bool knows_order = false;  // of labels in an order: true_labels are known, and may be none
  // The predictions of each output, if there are several: in place of all above but source and
  // pixels.
  std::vector<Prediction> outputs = {};
};

struct Predictions {
  std::vector<std::string> class_names;
  bool has_labels = false;      // classes do not exclude one another
  bool several_labels = false;  // and an example may have several, or none
  std::string target;  // the name of the predicted number; "": classes are predicted
  std::vector<std::string> targets;  // the names of all numbers
  // The name and the five entries above of each output, if there are several.
  std::vector<Predictions> outputs = {};
  std::string output = {};
  bool labels_in_order = false;  // an example has any number of labels, one after the other
  std::vector<Prediction> predictions;
  std::vector<std::string> problems;    // a line for each picture or folder that could not be read
  std::vector<std::string> notes;       // further notes for the user, a line each
  std::string csv;                      // if "csv" was given
  Failure problem = {Exit::kDone, ""};  // with `problems`: how many
};

// Predicts classes of pictures ("input": PNG or JPEG files and folders of them, one a line, brought
// to the network's size), classes or numbers of rows ("input": CSV files), or of test examples
// ("data" and "index", "0-9"). Writes a table to "csv" if that is given and not "-". Writes the
// logits as the network computed them to "raw", an NPZ file: "mantissas", int32 [N, classes], and
// "exponent", int32; a logit is mantissa * 2^exponent. In fp32: "logits", float32, alone. Of several
// outputs: "NAME.mantissas" and so on. Of a
// class for each place: [N, places, classes]. Pictures that can be read are predicted. If
// others cannot be read, or a folder has none, `problem` says so. An error if that is all there is.
MANTISSA_EXPORT Outcome<Predictions> predict(const Settings& settings);

struct DataDescription {
  std::string json;                     // docs/data.md
  Failure problem = {Exit::kDone, ""};  // why training would refuse the data
};

// Describes a data set: kind, counts, sizes, statistics, and anything odd. Writes a picture with
// examples of each class to "contact-sheet" if that is given.
MANTISSA_EXPORT Outcome<DataDescription> describe_data(const Settings& settings);

struct ImportedModel {
  std::string network;             // its name
  int64_t layers = 0;              // nodes of the network
  int64_t parameters = 0;          // numbers that training changes
  std::vector<std::string> notes;  // assumptions, and what was left out
  // Describes a language model's file, line by line (describe_language_model); empty for others.
  std::vector<std::string> description = {};
};

// Imports an ONNX model, an encoder or a language model (a GGUF file or a folder), and writes the
// network and its weights to "out", a safetensors file that `train` starts from. docs/onnx.md,
// docs/language.md. A model that asks for something that is not there is refused by name, and
// nothing is written.
MANTISSA_EXPORT Outcome<ImportedModel> import_model(const std::string& path,
                                                    const Settings& settings);

struct Plan {
  std::string text;  // program and memory, readable
  std::string json;  // memory: bytes by kind, peak, largest consumers
};

// Compiles a network and says what it would need; runs nothing.
MANTISSA_EXPORT Outcome<Plan> plan(const Settings& settings);

struct Simulation {
  std::string text;
  std::string json;
};

// Simulates a pipeline of stages: idle time, staleness, throughput. docs/pipelines.md.
MANTISSA_EXPORT Outcome<Simulation> simulate(const Settings& settings);

struct MeasuredProfile {
  std::string path;  // of the file that was written
  std::string text;  // what it says
  std::string json;
};

// Measures how long this machine takes for the work of programs, and writes the times to "out", or
// to the place where later runs look for them. The observer is shown every step of the measurement.
MANTISSA_EXPORT Outcome<MeasuredProfile> profile(const Settings& settings,
                                                 const Observer& observer = nullptr);

struct BenchReport {
  std::string json;                     // docs/bench.md
  Failure problem = {Exit::kDone, ""};  // why it could not be written to "out"
};

// Measures training steps instruction by instruction, and the most that the machine reaches. Writes
// the JSON to "out" if that is given. The observer is shown every step; if it returns false nothing
// is measured (kInterrupted).
MANTISSA_EXPORT Outcome<BenchReport> bench(const Settings& settings,
                                           const Observer& observer = nullptr);

// The kernels that convolve one kind of shape, and the rows of the table that were passed over.
struct ConvolutionChoice {
  std::string shape;   // "3x3 in 4 groups"
  std::string kernel;  // the kernels that share the work, the first named first
  std::vector<std::pair<std::string, std::string>> declined;  // row, reason
};

struct Info {
  std::string version;
  std::string cpu;
  std::string isa;
  std::string compiler;
  std::vector<std::pair<std::string, std::string>> kernels;  // family, chosen kernel
  std::vector<ConvolutionChoice> convolutions;
  std::vector<std::string> formats;
};

// Version, CPU and the kernels chosen for it, or for an instruction set that is named.
MANTISSA_EXPORT Outcome<Info> info(const std::string& isa = "auto");

[[deprecated("info(isa)")]] inline Info info(const std::string& isa, std::string& error) {
  Outcome<Info> found = info(isa);
  error = found.error();
  return found.ok() ? std::move(*found) : Info();
}

}  // namespace mantissa
