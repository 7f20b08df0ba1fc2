// Settings of bench.
#include <algorithm>
#include <array>
#include <filesystem>

#include "api/settings/settings.h"
#include "base/files/file_system.h"
#include "data/synthetic.h"
#include "run/settings/run_folder.h"

namespace mantissa {
namespace {

constexpr int64_t kMostSteps = 10'000;
constexpr int64_t kMostPixels = 4096;  // per side
constexpr int64_t kTokens = 30'522;    // of synthetic texts: BERT's vocabulary

// Settings of training that affect the time of a step.
constexpr std::array kOfTraining = {
    "model",  "format",          "batch-size",      "micro-batch-size", "optimizer", "clip-norm",
    "loss",   "label-smoothing", "width",           "augment",          "seed",      "threads",
    "isa",    "recompute",       "allow-inversion", "memory-budget",    "plan",      "profile",
    "freeze", "sequence"};

// Settings that also affect predictions.
constexpr std::array kOfPredictions = {"batch-size", "seed", "threads", "isa"};

const SettingInfo kOwn[] = {
    {"checkpoint",
     "a trained network (--out of a run, model.safetensors or an exported .onnx): "
     "measure its predictions instead of training",
     ""},
    {"data", "synthetic, fashion-mnist, or a folder with IDX files", kSyntheticData},
    {"input-size", "HxWxC of synthetic pictures: 32x32x3", "28x28x1"},
    {"classes",
     "of synthetic pictures (left out: 10); the tokens that synthetic texts are made of "
     "(left out: 30522)",
     ""},
    {"steps", "steps that are measured", "30"},
    {"warmup", "steps before them", "5"},
    {"sort", "instructions by program or by time", "program"},
    {"compare", "file that --out wrote (or a folder with bench.json): show its times, too", ""},
    {"out", "file for the JSON, or a folder for bench.json", ""}};

constexpr int kFirst = 4;  // of kOwn: shown after the network

bool is_of_training(const std::string& name) {
  return std::find(kOfTraining.begin(), kOfTraining.end(), name) != kOfTraining.end();
}

// Refuses settings that the checkpoint itself determines.
Status check_prediction(const Settings& settings) {
  for (const auto& [name, text] : settings) {
    const bool is_used =
        std::find(kOfPredictions.begin(), kOfPredictions.end(), name) != kOfPredictions.end();
    const bool is_of_network = name == "data" || name == "input-size" || name == "classes" ||
                               (is_of_training(name) && !is_used);
    if (is_of_network) {
      return invalid_input("--" + name +
                           " is not for --checkpoint, whose predictions of noise are measured: "
                           "leave it out");
    }
  }
  return {};
}

// The file of a checkpoint that may be named by its run's folder.
Result<std::string> model_file(const std::string& checkpoint) {
  MANTISSA_ASSIGN(const PathKind kind, path_kind(checkpoint));
  if (kind != PathKind::kFolder) return checkpoint;
  return (std::filesystem::path(checkpoint) / kModelFile).string();
}

Status parse_input_size(const std::string& text, BenchmarkConfig& config) {
  const size_t first = text.find('x'), second = text.find('x', first + 1);
  const auto refuse = [&] {
    return invalid_input("input-size: '" + text + "' is not HxWxC, such as 32x32x3");
  };
  if (first == std::string::npos || second == std::string::npos) return refuse();
  const auto height = parse_integer("", text.substr(0, first), 1, kMostPixels);
  const auto width = parse_integer("", text.substr(first + 1, second - first - 1), 1, kMostPixels);
  const auto channels = parse_integer("", text.substr(second + 1), 1, kMostPixels);
  if (!height.ok() || !width.ok() || !channels.ok()) return refuse();
  config.height = *height;
  config.width = *width;
  config.channels = *channels;
  return {};
}

Status set_own(const std::string& name, const std::string& text, BenchConfig& config) {
  BenchmarkConfig& benchmark = config.benchmark;
  if (name == "compare") config.compare = text;
  if (name == "out") config.out = text;
  if (name == "checkpoint") {
    MANTISSA_ASSIGN(benchmark.checkpoint, model_file(text));
  }
  if (name == "input-size") return parse_input_size(text, benchmark);
  if (name == "classes") {
    MANTISSA_ASSIGN(benchmark.classes, parse_integer(name, text, 2, kMaxClasses));
  }
  if (name == "steps") {
    MANTISSA_ASSIGN(benchmark.steps, parse_integer(name, text, 1, kMostSteps));
  }
  if (name == "warmup") {
    MANTISSA_ASSIGN(benchmark.warmup_steps, parse_integer(name, text, 0, kMostSteps));
  }
  if (name == "sort" && text != "program" && text != "time") {
    return invalid_input("sort: '" + text + "' is neither program nor time");
  }
  return {};
}

}  // namespace

std::vector<SettingInfo> bench_infos() {
  std::vector<SettingInfo> infos;
  for (const Setting& setting : training_settings()) {
    if (!is_of_training(setting.name)) continue;
    infos.push_back({setting.name, setting.help, setting.default_text, setting.is_switch});
    // After the network, as in train.
    if (infos.size() == 1) infos.insert(infos.end(), std::begin(kOwn), std::begin(kOwn) + kFirst);
  }
  infos.insert(infos.end(), std::begin(kOwn) + kFirst, std::end(kOwn));
  return infos;
}

Result<BenchConfig> bench_config(const Settings& settings) {
  BenchConfig config;
  Settings training;
  for (const auto& [name, text] : settings) {
    const bool own = std::any_of(std::begin(kOwn), std::end(kOwn),
                                 [&name = name](const SettingInfo& s) { return s.name == name; });
    if (!own && !is_of_training(name)) {
      return invalid_input("unknown setting '" + name + "' of bench");
    }
    // "data" is of both.
    if (!own || name == "data") training[name] = text;
    if (own) MANTISSA_RETURN_IF_ERROR(set_own(name, text, config));
  }
  if (!config.benchmark.checkpoint.empty()) {
    MANTISSA_RETURN_IF_ERROR(check_prediction(settings));
  }
  training.insert({"data", kSyntheticData});
  MANTISSA_ASSIGN(config.benchmark.run, make_run_config(training));
  const bool synthetic = config.benchmark.run.data == kSyntheticData;
  for (const char* name : {"input-size", "classes"}) {
    if (!synthetic && settings.count(name) > 0) {
      return invalid_input(std::string("--") + name + " is for synthetic data: leave out --data");
    }
  }
  const bool is_text = config.benchmark.run.sequence > 0;
  if (is_text && settings.contains("input-size")) {
    return invalid_input("--input-size is for networks of pictures; " + config.benchmark.run.model +
                         " reads texts, of --sequence tokens each");
  }
  if (is_text && !synthetic) {
    return invalid_input("bench: measures language models with synthetic texts: leave out --data");
  }
  if (is_text && !settings.contains("classes")) config.benchmark.classes = kTokens;
  if (synthetic && config.benchmark.run.augmentation != Augmentation{}) {
    return invalid_input("--augment changes no synthetic pictures: name a data set with --data");
  }
  return config;
}

}  // namespace mantissa
