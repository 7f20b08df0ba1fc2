#include "run/logs/event_log.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/files/file_system.h"
#include "base/files/line_reader.h"
#include "base/hash.h"
#include "formats/json_text.h"
#include "run/logs/json_lines.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// Seconds that the steps of each line took.
std::vector<double> durations(const std::vector<MetricsLine>& lines, int64_t batch_size) {
  std::vector<double> seconds;
  int64_t step = 0;
  for (const MetricsLine& line : lines) {
    const double examples = static_cast<double>(line.step - step) * static_cast<double>(batch_size);
    seconds.push_back(line.examples_per_second > 0 ? examples / line.examples_per_second : 0);
    step = line.step;
  }
  return seconds;
}

// The entries "loss.NAME" and so on of a line; may throw json::exception.
std::map<std::string, OutputMetrics> outputs_in(const nlohmann::json& line) {
  constexpr std::string_view kLoss = "loss.";
  std::map<std::string, OutputMetrics> outputs;
  for (const auto& [key, loss] : line.items()) {
    if (!key.starts_with(kLoss)) continue;
    const std::string name = key.substr(kLoss.size());
    OutputMetrics& output = outputs[name];
    output.loss = loss.get<double>();
    const auto take = [&](const std::string& kind, std::optional<double>& value) {
      const auto found = line.find(kind + name);
      if (found != line.end()) value = found->get<double>();
    };
    take("accuracy.", output.accuracy);
    take("validation_loss.", output.validation_loss);
    take("validation_accuracy.", output.validation_accuracy);
  }
  return outputs;
}

}  // namespace

Result<std::vector<MetricsLine>> read_metrics(const fs::path& path) {
  std::vector<MetricsLine> lines;
  MANTISSA_ASSIGN(const bool there, is_there(path));
  if (!there) return lines;
  MANTISSA_ASSIGN(LineReader reader, LineReader::open(path));
  while (true) {
    MANTISSA_ASSIGN(const auto text, reader.next());
    if (!text) break;
    const auto json = parse_json(*text);
    if (!json.is_object()) break;
    try {
      const auto number = [&json](const char* name) {
        return json.contains(name) ? std::optional<double>(json[name].get<double>()) : std::nullopt;
      };
      const auto step = step_of(json);
      if (!step || (!lines.empty() && *step <= lines.back().step)) break;
      lines.push_back({.step = *step,
                       .epoch = json.at("epoch"),
                       .loss = json.at("loss"),
                       .accuracy = number("accuracy"),
                       .learning_rate = json.at("learning_rate"),
                       .examples_per_second = json.at("examples_per_second"),
                       .saturation_rate = json.at("saturation_rate"),
                       .gradient_norm = number("gradient_norm"),
                       .validation_loss = number("validation_loss"),
                       .validation_accuracy = number("validation_accuracy"),
                       .outputs = outputs_in(json)});
    } catch (const nlohmann::json::exception&) {
      break;
    }
  }
  return lines;
}

fs::path event_file(const fs::path& tensorboard, std::string name, const fs::path& run) {
  std::replace(name.begin(), name.end(), '/', '_');
  if (name.size() > NAME_MAX) name.erase(0, name.size() - NAME_MAX);
  if (name.empty() || name == "." || name == "..") name = "run";
  // The same folder always has the same file, whatever the run's settings.
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(run, error);
  const std::string id = sha256_hex((error ? fs::absolute(run, error) : whole).string());
  return tensorboard / name / ("events.out.tfevents.0.mantissa-" + id.substr(0, 12));
}

Status check_event_file(const fs::path& file) {
  const fs::path folder = file.parent_path();
  MANTISSA_ASSIGN(const bool there, is_there(folder));
  if (!there) return {};
  auto names = list_names(folder);
  if (!names.ok()) {
    names.error().message = "--tensorboard: " + names.error().message;
    return names.error();
  }
  for (const std::string& name : *names) {
    if (name == file.filename() || name.find("tfevents") == std::string::npos) continue;
    return invalid_input("--tensorboard: " + (folder / name).string() +
                         " is of another run, and TensorBoard would mix both; remove it, or name "
                         "another folder");
  }
  return {};
}

Result<EventFile> write_events(const fs::path& metrics_file, const fs::path& file,
                               int64_t batch_size, double end) {
  if (Status made = make_folder(file.parent_path()); !made.ok()) {
    made.error().message = "--tensorboard: " + made.error().message;
    return std::move(made.error());
  }
  MANTISSA_RETURN_IF_ERROR(check_event_file(file));
  MANTISSA_ASSIGN(const std::vector<MetricsLine> lines, read_metrics(metrics_file));
  const std::vector<double> seconds = durations(lines, batch_size);
  double time = end;
  for (const double part : seconds) time -= part;
  MANTISSA_ASSIGN(EventFile events, EventFile::create(file, time));
  for (size_t i = 0; i < lines.size(); ++i) {
    time += seconds[i];
    MANTISSA_RETURN_IF_ERROR(events.write(time, lines[i].step, scalars_of(lines[i])));
  }
  return events;
}

Scalars scalars_of(const MetricsLine& line) {
  Scalars scalars = {{"train/loss", line.loss}};
  const auto add = [&](const std::string& name, const std::optional<double>& value) {
    if (value) scalars.emplace_back(name, *value);
  };
  add("train/accuracy", line.accuracy);
  add("train/learning_rate", line.learning_rate);
  add("train/examples_per_second", line.examples_per_second);
  add("train/saturation_rate", line.saturation_rate);
  add("train/gradient_norm", line.gradient_norm);
  add("validation/loss", line.validation_loss);
  add("validation/accuracy", line.validation_accuracy);
  for (const auto& [name, output] : line.outputs) {
    add("train/loss." + name, output.loss);
    add("train/accuracy." + name, output.accuracy);
    add("validation/loss." + name, output.validation_loss);
    add("validation/accuracy." + name, output.validation_accuracy);
  }
  return scalars;
}

double wall_time_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace mantissa
