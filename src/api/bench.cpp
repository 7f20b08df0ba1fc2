// The public interface of bench, in terms of train/.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/outcome.h"
#include "api/settings.h"
#include "base/atomic_file.h"
#include "train/benchmark.h"
#include "train/benchmark_json.h"

namespace mantissa {
namespace {

using Json = nlohmann::ordered_json;

// Found out before anything is measured.
Status check_folder_of(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code unreadable;
  if (folder.empty() || std::filesystem::is_directory(folder, unreadable)) return {};
  return invalid_input("--out: there is no folder " + folder.string());
}

Result<std::string> run_bench(const Settings& settings, const Observer& observer) {
  MANTISSA_ASSIGN(const BenchConfig config, bench_config(settings));
  std::optional<Json> before;
  const std::string compared = benchmark_file(config.compare), out = benchmark_file(config.out);
  if (!config.compare.empty()) {
    MANTISSA_ASSIGN(before, read_benchmark(compared));
  }
  if (!config.out.empty()) MANTISSA_RETURN_IF_ERROR(check_folder_of(out));
  TrainObserver forward;
  if (observer != nullptr) {
    forward = [&](const TrainEvent& event) { return observer(progress_of(event)); };
  }
  MANTISSA_ASSIGN(const Benchmark benchmark, run_benchmark(config.benchmark, forward));
  Json json = to_json(config.benchmark, benchmark);
  if (before) compare_benchmarks(*before, compared, json);
  std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (!config.out.empty()) {
    const std::span<const std::byte> piece = std::as_bytes(std::span(text));
    MANTISSA_RETURN_IF_ERROR(write_file_atomically(out, std::span(&piece, 1)));
  }
  return text;
}

}  // namespace

BenchOutcome bench(const Settings& settings, const Observer& observer) {
  Result<std::string> json = run_bench(settings, observer);
  if (!json.ok()) return refused<BenchOutcome>(json.error());
  BenchOutcome outcome;
  outcome.json = std::move(*json);
  return outcome;
}

}  // namespace mantissa
