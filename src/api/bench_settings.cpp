// Settings of bench.
#include <algorithm>
#include <array>

#include "api/settings.h"
#include "data/synthetic.h"

namespace mantissa {
namespace {

constexpr int64_t kMostSteps = 10'000;
constexpr int64_t kMostPixels = 4096;  // per side

// Those of training that a step's time depends on.
constexpr std::array kOfTraining = {
    "model", "format",          "batch-size",      "micro-batch-size", "optimizer", "clip-norm",
    "loss",  "label-smoothing", "width",           "augment",          "seed",      "threads",
    "isa",   "recompute",       "allow-inversion", "memory-budget",    "plan",      "profile",
    "freeze"};

const SettingInfo kOwn[] = {
    {"data", "synthetic, fashion-mnist, or a folder with IDX files", kSyntheticData},
    {"input-size", "HxWxC of synthetic pictures: 32x32x3", "28x28x1"},
    {"classes", "of synthetic pictures", "10"},
    {"steps", "steps that are measured", "30"},
    {"warmup", "steps before them", "5"},
    {"sort", "instructions by program or by time", "program"},
    {"compare", "file that --out wrote (or a folder with bench.json): show its times, too", ""},
    {"out", "file for the JSON, or a folder for bench.json", ""}};

bool is_of_training(const std::string& name) {
  return std::find(kOfTraining.begin(), kOfTraining.end(), name) != kOfTraining.end();
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
  if (name == "input-size") return parse_input_size(text, benchmark);
  if (name == "classes") {
    MANTISSA_ASSIGN(benchmark.classes, parse_integer(name, text, 2, 256));
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
    // Where train has it: after the network.
    if (infos.size() == 1) infos.insert(infos.end(), std::begin(kOwn), std::begin(kOwn) + 3);
  }
  infos.insert(infos.end(), std::begin(kOwn) + 3, std::end(kOwn));
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
  training.insert({"data", kSyntheticData});
  MANTISSA_ASSIGN(config.benchmark.run, make_run_config(training));
  const bool synthetic = config.benchmark.run.data == kSyntheticData;
  for (const char* name : {"input-size", "classes"}) {
    if (!synthetic && settings.count(name) > 0) {
      return invalid_input(std::string("--") + name +
                           " is for synthetic pictures: leave out --data");
    }
  }
  if (synthetic && config.benchmark.run.augmentation != Augmentation{}) {
    return invalid_input("--augment changes no synthetic pictures: name a data set with --data");
  }
  return config;
}

}  // namespace mantissa
