// The public interface to the files of runs, in terms of report/.
#include "mantissa/runs.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "api/outcome.h"
#include "api/target.h"
#include "base/files/atomic_file.h"
#include "report/describe.h"
#include "report/report.h"
#include "report/statistics.h"
#include "report/verify.h"
#include "run/logs/event_log.h"
#include "run/settings/run_config.h"
#include "run/settings/run_folder.h"

namespace mantissa {

VerifyOutcome verify(const std::string& run_a, const std::string& run_b) {
  Result<HashComparison> comparison = compare_hashes(run_a, run_b);
  if (!comparison.ok()) return refused<VerifyOutcome>(comparison.error());
  VerifyOutcome outcome;
  const bool differ = comparison->differing_step >= 0;
  outcome.same = !differ && comparison->complete;
  outcome.exit = outcome.same ? Exit::kDone : differ ? Exit::kFailed : Exit::kInvalidInput;
  outcome.tensors = comparison->tensors;
  outcome.steps_compared = comparison->steps_compared;
  outcome.last_same_step = comparison->last_same_step;
  outcome.differing_step = comparison->differing_step;
  outcome.differing_tensors = std::move(comparison->differing_tensors);
  outcome.notes = std::move(comparison->notes);
  return outcome;
}

namespace {

// The events of each run, in a folder with the run's name.
Status export_events(const std::vector<RunRecord>& runs, const std::filesystem::path& folder) {
  for (const RunRecord& run : runs) {
    const auto metrics = run.folder / kMetricsFile;
    struct stat status {};
    const double end = stat(metrics.c_str(), &status) == 0 ? static_cast<double>(status.st_mtime)
                                                           : wall_time_now();
    const auto batch = run.settings.find("batch-size");
    const auto batch_size = batch == run.settings.end()
                                ? Result<int64_t>(1)
                                : parse_integer("batch-size", batch->second, 1, 1 << 20);
    MANTISSA_RETURN_IF_ERROR(write_events(metrics, event_file(folder, run.name, run.folder),
                                          batch_size.ok() ? *batch_size : 1, end));
  }
  return {};
}

Result<ReportOutcome> write_report(const std::vector<std::string>& folders,
                                   const Settings& settings) {
  ReportOutcome outcome;
  outcome.file = "report.html";
  std::string tensorboard;
  for (const auto& [name, text] : settings) {
    if (name != "out" && name != "tensorboard") {
      return invalid_input("unknown setting '" + name + "' of report");
    }
    (name == "out" ? outcome.file : tensorboard) = text;
  }
  MANTISSA_RETURN_IF_ERROR(check_target("out", outcome.file));
  MANTISSA_ASSIGN(const std::vector<RunRecord> runs, read_runs(folders));
  if (!tensorboard.empty()) MANTISSA_RETURN_IF_ERROR(export_events(runs, tensorboard));
  MANTISSA_RETURN_IF_ERROR(write_text_atomically(outcome.file, report_html(runs)));
  for (const RunRecord& run : runs) {
    for (const std::string& problem : run.problems) {
      outcome.problems.push_back(run.folder.string() + ": " + problem);
    }
  }
  return outcome;
}

}  // namespace

ReportOutcome report(const std::vector<std::string>& runs, const Settings& settings) {
  Result<ReportOutcome> outcome = write_report(runs, settings);
  return outcome.ok() ? std::move(*outcome) : refused<ReportOutcome>(outcome.error());
}

namespace {

// The name of a kind in tensors.jsonl, "" for all of them.
Result<std::string> parse_kind(const Settings& settings) {
  std::string kind = "all";
  for (const auto& [name, text] : settings) {
    if (name != "kind") return invalid_input("unknown setting '" + name + "' of statistics");
    kind = text;
  }
  if (kind == "all") return std::string();
  if (kind == "parameter-gradient") return std::string("parameter gradient");
  if (kind == "value" || kind == "gradient" || kind == "parameter") return kind;
  return invalid_input("--kind: '" + kind +
                       "' is none; choose value, gradient, parameter, parameter-gradient or all");
}

Result<nlohmann::ordered_json> read_statistics(const std::string& run, const Settings& settings) {
  MANTISSA_ASSIGN(const std::string kind, parse_kind(settings));
  MANTISSA_ASSIGN(const RunRecord record, read_run(run));
  return tensor_statistics(record, kind);
}

// Lines such as "x=1x3x224x224".
Result<std::map<std::string, std::vector<int64_t>>> parse_shapes(const std::string& text) {
  std::map<std::string, std::vector<int64_t>> shapes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    // Names may have "=" in them, sizes do not.
    const size_t equals = line.rfind('=');
    if (equals == std::string::npos) {
      return invalid_input("shape: '" + line + "' is not as in x=1x3x224x224");
    }
    std::vector<int64_t>& shape = shapes[line.substr(0, equals)];
    std::istringstream sizes(line.substr(equals + 1));
    for (std::string size; std::getline(sizes, size, 'x');) {
      MANTISSA_ASSIGN(const int64_t number, parse_integer("shape", size, 0, INT32_MAX));
      shape.push_back(number);
    }
  }
  return shapes;
}

}  // namespace

StatisticsOutcome statistics(const std::string& run, const Settings& settings) {
  const auto json = read_statistics(run, settings);
  if (!json.ok()) return refused<StatisticsOutcome>(json.error());
  StatisticsOutcome outcome;
  outcome.problems = (*json)["problems"].get<std::vector<std::string>>();
  outcome.json = json->dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  return outcome;
}

DescriptionOutcome describe_path(const std::string& path, const Settings& settings) {
  const auto shape = settings.find("shape");
  const auto shapes = parse_shapes(shape == settings.end() ? "" : shape->second);
  if (!shapes.ok()) return refused<DescriptionOutcome>(shapes.error());
  const auto json = describe(path, *shapes);
  if (!json.ok()) return refused<DescriptionOutcome>(json.error());
  DescriptionOutcome outcome;
  outcome.json = json->dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  return outcome;
}

}  // namespace mantissa
