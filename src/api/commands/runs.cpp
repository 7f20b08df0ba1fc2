// The public interface to the files of runs, in terms of report/.
#include "mantissa/runs.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "api/outcome.h"
#include "api/settings/commands.h"
#include "api/settings/settings.h"
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

Outcome<Comparison> verify(const std::string& run_a, const std::string& run_b) {
  MANTISSA_ASSIGN(HashComparison found, compare_hashes(run_a, run_b));
  const bool differ = found.differing_step >= 0, same = !differ && found.complete;
  const Exit exit = same ? Exit::kDone : differ ? Exit::kFailed : Exit::kInvalidInput;
  return Comparison{.same = same,
                    .tensors = found.tensors,
                    .steps_compared = found.steps_compared,
                    .last_same_step = found.last_same_step,
                    .differing_step = found.differing_step,
                    .differing_tensors = std::move(found.differing_tensors),
                    .notes = std::move(found.notes),
                    .problem = {exit, ""}};
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

struct ReportConfig {
  std::string out, tensorboard;
};

constexpr SettingOf<ReportConfig> kReportRows[] = {
    {"out", "the HTML file to write", "report.html", parse_text<&ReportConfig::out>},
    {"tensorboard", "folder for event files of the runs, one folder each", "",
     parse_text<&ReportConfig::tensorboard>}};
constexpr CommandOf<ReportConfig> kReportCommand = {"report", kReportRows};

}  // namespace

CommandInfo report_command() { return info_of<kReportCommand>(); }

Outcome<WrittenReport> report(const std::vector<std::string>& runs, const Settings& settings) {
  MANTISSA_ASSIGN(const ReportConfig config, read_settings(kReportCommand, settings));
  WrittenReport written{.file = config.out, .problems = {}};
  MANTISSA_RETURN_IF_ERROR(check_target("out", written.file));
  MANTISSA_ASSIGN(const std::vector<RunRecord> records, read_runs(runs));
  if (!config.tensorboard.empty()) {
    MANTISSA_RETURN_IF_ERROR(export_events(records, config.tensorboard));
  }
  MANTISSA_RETURN_IF_ERROR(write_text_atomically(written.file, report_html(records)));
  for (const RunRecord& run : records) {
    for (const std::string& problem : run.problems) {
      written.problems.push_back(run.folder.string() + ": " + problem);
    }
  }
  return written;
}

namespace {

struct StatisticsConfig {
  std::string kind;  // its name in tensors.jsonl, "" for all of them
};

Status parse_statistics_kind(const std::string&, const std::string& kind,
                             StatisticsConfig& config) {
  const bool is_name = kind == "value" || kind == "gradient" || kind == "parameter";
  if (!is_name && kind != "all" && kind != "parameter-gradient") {
    return invalid_input("--kind: '" + kind +
                         "' is none; choose value, gradient, parameter, parameter-gradient or all");
  }
  config.kind = is_name ? kind : kind == "all" ? "" : "parameter gradient";
  return {};
}

constexpr SettingOf<StatisticsConfig> kStatisticsRows[] = {
    {"kind", "tensors to show: value, gradient, parameter, parameter-gradient, or all", "all",
     parse_statistics_kind}};
constexpr CommandOf<StatisticsConfig> kStatisticsCommand = {"statistics", kStatisticsRows};

std::string text_of(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
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

CommandInfo statistics_command() { return info_of<kStatisticsCommand>(); }

Outcome<RunStatistics> statistics(const std::string& run, const Settings& settings) {
  MANTISSA_ASSIGN(const StatisticsConfig config, read_settings(kStatisticsCommand, settings));
  MANTISSA_ASSIGN(const RunRecord record, read_run(run));
  MANTISSA_ASSIGN(const nlohmann::ordered_json json, tensor_statistics(record, config.kind));
  return RunStatistics{text_of(json), json["problems"].get<std::vector<std::string>>()};
}

Outcome<PathDescription> describe_path(const std::string& path, const Settings& settings) {
  const auto shape = settings.find("shape");
  MANTISSA_ASSIGN(const auto shapes, parse_shapes(shape == settings.end() ? "" : shape->second));
  MANTISSA_ASSIGN(const nlohmann::ordered_json json, describe(path, shapes));
  return PathDescription{text_of(json)};
}

}  // namespace mantissa
