// The public interface of bench, in terms of train/.
#include <nlohmann/json.hpp>
#include <optional>

#include "api/inference/inference_config.h"
#include "api/outcome.h"
#include "api/settings/commands.h"
#include "api/target.h"
#include "base/files/atomic_file.h"
#include "data/synthetic.h"
#include "measure/benchmark.h"
#include "measure/benchmark_json.h"

namespace mantissa {
namespace {

using Json = nlohmann::ordered_json;

// The settings of training that affect a step, and its own.
struct BenchConfig {
  BenchmarkConfig benchmark;
  std::string out;
  std::string compare;
};

constexpr int64_t kMostSteps = 10'000;
constexpr int64_t kMostPixels = 4096;  // per side
constexpr int64_t kTokens = 30'522;    // of synthetic texts: BERT's vocabulary

// Refuses settings that the checkpoint itself determines.
Status check_prediction(const Settings& settings) {
  for (const auto& [name, text] : settings) {
    const bool is_of_network =
        name == "data" || name == "input-size" || name == "classes" ||
        (has_trait(name, traits::kInBench) && !has_trait(name, traits::kOfPredictions));
    if (is_of_network) {
      return invalid_input("--" + name +
                           " is not for --checkpoint, whose predictions of noise are measured: "
                           "leave it out");
    }
  }
  return {};
}

Status parse_input_size(const std::string&, const std::string& text, BenchConfig& bench) {
  BenchmarkConfig& config = bench.benchmark;
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

// The order is the reader's affair.
Status check_order(const std::string&, const std::string& text, BenchConfig&) {
  if (text == "program" || text == "time") return {};
  return invalid_input("'" + text + "' is neither program nor time");
}

constexpr auto kBenchmark = &BenchConfig::benchmark;

constexpr SettingOf<BenchConfig> kBenchRows[] = {
    {"model"},  // first, as in train
    {"checkpoint",
     "a trained network (--out of a run, model.safetensors or an exported .onnx): measure its "
     "predictions instead of training",
     "", parse_by<network_file, kBenchmark, &BenchmarkConfig::checkpoint>},
    {"data", "synthetic, fashion-mnist, or a folder with IDX files", kSyntheticData},
    {"input-size", "HxWxC of synthetic pictures: 32x32x3", "28x28x1", parse_input_size},
    {"classes",
     "of synthetic pictures (left out: 10); the tokens that synthetic texts are made of (left out: "
     "30522)",
     "", parse_whole<2, kMaxClasses, kBenchmark, &BenchmarkConfig::classes>},
    {kOfTraining},
    {"steps", "steps that are measured", "30",
     parse_whole<1, kMostSteps, kBenchmark, &BenchmarkConfig::steps>},
    {"warmup", "steps before them", "5",
     parse_whole<0, kMostSteps, kBenchmark, &BenchmarkConfig::warmup_steps>},
    {"sort", "instructions by program or by time", "program", check_order},
    {"compare", "file that --out wrote (or a folder with bench.json): show its times, too", "",
     parse_text<&BenchConfig::compare>},
    {"out", "file for the JSON, or a folder for bench.json", "", parse_text<&BenchConfig::out>}};
constexpr CommandOf<BenchConfig> kBenchCommand = {"bench", kBenchRows, traits::kInBench};

// A language model that --from names brings its tokens.
Status choose_tokens(const Settings& settings, BenchmarkConfig& config) {
  const RunConfig& run = config.run;
  if (run.sequence == 0) return {};
  const bool has_classes = settings.contains("classes");
  if (!run.known_vocabulary) {
    if (!has_classes) config.classes = kTokens;
    return {};
  }
  if (has_classes) {
    return invalid_input("--classes: the tokens of " + run.from + " are known: leave it out");
  }
  config.classes = std::ssize(run.known_vocabulary->names());
  return {};
}

Result<BenchConfig> bench_config(const Settings& settings) {
  Settings training;
  MANTISSA_ASSIGN(BenchConfig config, read_settings(kBenchCommand, settings, &training));
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
  MANTISSA_RETURN_IF_ERROR(choose_tokens(settings, config.benchmark));
  if (synthetic && config.benchmark.run.augmentation != Augmentation{}) {
    return invalid_input("--augment changes no synthetic pictures: name a data set with --data");
  }
  return config;
}

}  // namespace

CommandInfo bench_command() { return info_of<kBenchCommand>(); }

Outcome<BenchReport> bench(const Settings& settings, const Observer& observer) {
  MANTISSA_ASSIGN(BenchConfig config, bench_config(settings));
  std::optional<nlohmann::json> before;
  const std::string compared = benchmark_file(config.compare), out = benchmark_file(config.out);
  if (!config.compare.empty()) {
    MANTISSA_ASSIGN(before, read_benchmark(compared));
  }
  if (!config.out.empty()) MANTISSA_RETURN_IF_ERROR(check_target("out", out));
  MANTISSA_ASSIGN(const Benchmark benchmark,
                  config.benchmark.checkpoint.empty()
                      ? run_benchmark(config.benchmark, forwarded(observer))
                      : run_inference_benchmark(config.benchmark, forwarded(observer)));
  Json measured = to_json(config.benchmark, benchmark);
  if (before) compare_benchmarks(*before, compared, measured);
  BenchReport report{.json = measured.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"};
  if (config.out.empty()) return report;
  // The measurement outlives a file that cannot be written.
  const Status written = write_text_atomically(out, report.json);
  if (!written.ok()) report.problem = failure_of(written.error());
  return report;
}

}  // namespace mantissa
