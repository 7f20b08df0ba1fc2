// The public interface of bench, in terms of train/.
#include <nlohmann/json.hpp>
#include <optional>

#include "api/outcome.h"
#include "api/settings/settings.h"
#include "api/target.h"
#include "base/files/atomic_file.h"
#include "measure/benchmark.h"
#include "measure/benchmark_json.h"

namespace mantissa {
namespace {

using Json = nlohmann::ordered_json;

// `json` is filled as soon as it is known: the measurement outlives a file that cannot be written.
Status run_bench(const Settings& settings, const Observer& observer, std::string& json) {
  MANTISSA_ASSIGN(BenchConfig config, bench_config(settings));
  std::optional<nlohmann::json> before;
  const std::string compared = benchmark_file(config.compare), out = benchmark_file(config.out);
  if (!config.compare.empty()) {
    MANTISSA_ASSIGN(before, read_benchmark(compared));
  }
  if (!config.out.empty()) MANTISSA_RETURN_IF_ERROR(check_target("out", out));
  TrainObserver forward;
  if (observer != nullptr) {
    forward = [&](const TrainEvent& event) { return observer(progress_of(event)); };
  }
  MANTISSA_ASSIGN(const Benchmark benchmark,
                  config.benchmark.checkpoint.empty()
                      ? run_benchmark(config.benchmark, forward)
                      : run_inference_benchmark(config.benchmark, forward));
  Json measured = to_json(config.benchmark, benchmark);
  if (before) compare_benchmarks(*before, compared, measured);
  json = measured.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (config.out.empty()) return {};
  return write_text_atomically(out, json);
}

}  // namespace

BenchOutcome bench(const Settings& settings, const Observer& observer) {
  std::string json;
  const Status status = run_bench(settings, observer, json);
  BenchOutcome outcome;
  if (!status.ok()) outcome = refused<BenchOutcome>(status.error());
  outcome.json = std::move(json);
  return outcome;
}

}  // namespace mantissa
