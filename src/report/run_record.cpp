#include "report/run_record.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "formats/json_text.h"
#include "run/logs/json_lines.h"
#include "run/logs/trace_file.h"
#include "run/settings/config_file.h"
#include "run/settings/run_folder.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t kLargestRecordBytes = int64_t{1} << 30;

// The file's text, or a problem.
std::string read_text(const char* name, RunRecord& run) {
  const auto there = is_there(run.folder / name);
  if (there.ok() && !*there) {
    run.problems.push_back(std::string(name) + " is missing");
    return "";
  }
  const auto bytes = read_file(run.folder / name, kLargestRecordBytes);
  if (!bytes.ok()) {
    run.problems.push_back(bytes.error().message);
    return "";
  }
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

Json read_object(const char* name, RunRecord& run) {
  const std::string text = read_text(name, run);
  Json json = parse_json(text);
  if (json.is_object()) return json;
  if (!text.empty()) run.problems.push_back(std::string(name) + " is damaged");
  return Json::object();
}

// Calls `line(json)` for each whole line; the first one that it refuses ends the file.
template <typename Function>
void read_lines(const char* name, RunRecord& run, Function&& line) {
  const std::string text = read_text(name, run);
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    ++number;
    const std::string_view part = std::string_view(text).substr(at, end - at);
    const Json json = parse_json(part);
    if (!json.is_object() || !line(json)) {
      // A last line without its end is still being written.
      if (end != std::string::npos) {
        run.problems.push_back(std::string(name) + ", line " + std::to_string(number) +
                               ": damaged, what follows is left out");
      }
      return;
    }
    if (end == std::string::npos) return;
    at = end + 1;
  }
}

bool add_metrics(const Json& line, RunRecord& run) {
  const auto whole_step = step_of(line);
  if (!whole_step) return false;
  const auto step = static_cast<double>(*whole_step);
  for (const auto& [key, value] : line.items()) {
    if (key == "step" || !value.is_number()) continue;
    Series& series = run.metrics[key];
    if (!series.steps.empty() && step <= series.steps.back()) return false;
    series.steps.push_back(step);
    series.values.push_back(value.get<double>());
  }
  return true;
}

bool name_tensors(const Json& list, RunRecord& run) {
  if (!list.is_array()) return false;
  for (const Json& entry : list) {
    if (!entry.is_object()) return false;
    TensorHistory& tensor = run.tensors.emplace_back();
    tensor.name = text_of(entry, "name");
    tensor.kind = text_of(entry, "kind");
    tensor.written_by = text_of(entry, "written_by");
    tensor.bits = static_cast<int>(std::clamp(number_of(entry, "bits", 1), 1.0, 64.0));
  }
  return true;
}

bool is_numbers(const Json& list) {
  return list.is_array() &&
         std::all_of(list.begin(), list.end(), [](const Json& item) { return item.is_number(); });
}

// Counts whose sums fit int64, however many there are.
bool is_counts(const Json& list) {
  constexpr size_t kMostLengths = 64;
  constexpr uint64_t kMostElements = uint64_t{1} << 53;
  return list.is_array() && list.size() <= kMostLengths &&
         std::all_of(list.begin(), list.end(), [](const Json& item) {
           return item.is_number_unsigned() && item.get<uint64_t>() <= kMostElements;
         });
}

// Appends bit_counts as fractions, after those of `steps` steps. A length that a step does not list
// has no elements.
void add_bit_shares(size_t steps, TensorHistory& tensor) {
  const auto& counts = tensor.bit_counts;
  const size_t lengths = std::max(counts.size(), tensor.bit_shares.size());
  const double all = std::max(1.0, std::accumulate(counts.begin(), counts.end(), 0.0));
  tensor.bit_shares.resize(lengths, std::vector<double>(steps, 0.0));
  for (size_t length = 0; length < lengths; ++length) {
    const double count = length < counts.size() ? static_cast<double>(counts[length]) : 0;
    tensor.bit_shares[length].push_back(count / all);
  }
}

// Histograms are there with --statistics only.
bool add_bit_counts(const Json& line, double step, RunRecord& run) {
  const auto column = line.find("bit_counts");
  if (column == line.end()) return true;
  if (!column->is_array() || column->size() != run.tensors.size() ||
      !std::all_of(column->begin(), column->end(), is_counts)) {
    return false;
  }
  for (size_t i = 0; i < run.tensors.size(); ++i) {
    TensorHistory& tensor = run.tensors[i];
    tensor.bit_counts = (*column)[i].get<std::vector<int64_t>>();
    add_bit_shares(run.histogram_steps.size(), tensor);
  }
  run.histogram_steps.push_back(step);
  return true;
}

bool add_tensors(const Json& line, RunRecord& run) {
  if (const auto names = line.find("tensors"); names != line.end()) {
    return run.tensors.empty() && run.tensor_steps.empty() && name_tensors(*names, run);
  }
  if (run.tensors.empty()) return false;
  const auto whole_step = step_of(line);
  if (!whole_step) return false;
  const auto step = static_cast<double>(*whole_step);
  if (!run.tensor_steps.empty() && step <= run.tensor_steps.back()) return false;
  for (const char* key : {"elements", "exponent", "saturated", "mean_bits", "largest_bits",
                          "re_executions", "mispredictions"}) {
    const auto column = line.find(key);
    if (column == line.end() || column->size() != run.tensors.size() || !is_numbers(*column)) {
      return false;
    }
  }
  if (!add_bit_counts(line, step, run)) return false;
  run.tensor_steps.push_back(step);
  for (size_t i = 0; i < run.tensors.size(); ++i) {
    TensorHistory& tensor = run.tensors[i];
    const double elements = std::max(1.0, line["elements"][i].get<double>());
    tensor.exponent.push_back(line["exponent"][i].get<double>());
    tensor.saturation_rate.push_back(line["saturated"][i].get<double>() / elements);
    tensor.bit_use.push_back(line["mean_bits"][i].get<double>() / tensor.bits);
    tensor.largest_bits.push_back(line["largest_bits"][i].get<double>());
    tensor.repeated.push_back(line["re_executions"][i].get<double>() +
                              line["mispredictions"][i].get<double>());
  }
  return true;
}

}  // namespace

double number_of(const Json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Result<RunRecord> read_run(const fs::path& folder) {
  MANTISSA_ASSIGN(const PathKind kind, path_kind(folder));
  if (kind != PathKind::kFolder) {
    return invalid_input(folder.string() + ": is no folder of a run");
  }
  MANTISSA_ASSIGN(const std::vector<std::string> names, list_names(folder));
  if (std::none_of(kRunFiles.begin(), kRunFiles.end(), [&](const char* name) {
        return std::binary_search(names.begin(), names.end(), name);
      })) {
    return invalid_input(folder.string() + ": holds nothing of a run");
  }
  RunRecord run;
  run.folder = folder;
  run.name = run_name(folder);
  if (auto settings = read_config(folder / kConfigFile); settings.ok()) {
    run.settings = settings->all();
  } else {
    run.problems.push_back(settings.error().message);
  }
  read_lines(kMetricsFile, run, [&](const Json& line) { return add_metrics(line, run); });
  const auto format = run.settings.find("format");
  // With fp32, and in asynchronous pipelines, there is no such file.
  const bool has_tensors = format == run.settings.end() || format->second != "fp32";
  if (has_tensors && !run.settings.contains("pipeline")) {
    read_lines(kTensorsFile, run, [&](const Json& line) { return add_tensors(line, run); });
  }
  run.summary = read_object(kSummaryFile, run);
  run.evaluation = read_object(kEvaluationFile, run);
  if (std::binary_search(names.begin(), names.end(), kTraceFile)) {
    if (auto trace = read_trace(folder / kTraceFile); trace.ok()) {
      run.trace = std::move(*trace);
    } else {
      run.problems.push_back(trace.error().message);
    }
  }
  if (const std::string reason = text_of(run.summary, "diverged"); !reason.empty()) {
    run.problems.push_back("training diverged: " + reason);
  }
  return run;
}

}  // namespace mantissa
