#include "train/event_log.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/file_system.h"
#include "base/line_reader.h"
#include "train/json_lines.h"

namespace mantissa {
namespace {

namespace fs = std::filesystem;

// The lines of a metrics.jsonl up to the first that is damaged.
Result<std::vector<MetricsLine>> read_metrics(const fs::path& path) {
  std::vector<MetricsLine> lines;
  MANTISSA_ASSIGN(const bool there, is_there(path));
  if (!there) return lines;
  MANTISSA_ASSIGN(LineReader reader, LineReader::open(path));
  while (true) {
    MANTISSA_ASSIGN(const auto text, reader.next());
    if (!text) break;
    const auto json = nlohmann::json::parse(*text, nullptr, false);
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
                       .accuracy = json.at("accuracy"),
                       .learning_rate = json.at("learning_rate"),
                       .examples_per_second = json.at("examples_per_second"),
                       .saturation_rate = json.at("saturation_rate"),
                       .gradient_norm = number("gradient_norm"),
                       .validation_loss = number("validation_loss"),
                       .validation_accuracy = number("validation_accuracy")});
    } catch (const nlohmann::json::exception&) {
      break;
    }
  }
  return lines;
}

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

}  // namespace

Result<EventFile> write_events(const fs::path& metrics_file, const fs::path& folder,
                               const std::string& run_identity, int64_t batch_size, double end) {
  if (Status made = make_folder(folder); !made.ok()) {
    made.error().message = "--tensorboard: " + made.error().message;
    return std::move(made.error());
  }
  MANTISSA_ASSIGN(const std::vector<MetricsLine> lines, read_metrics(metrics_file));
  const std::vector<double> seconds = durations(lines, batch_size);
  double time = end;
  for (const double part : seconds) time -= part;
  MANTISSA_ASSIGN(EventFile events, EventFile::create(folder / ("events.out.tfevents.0.mantissa-" +
                                                                run_identity.substr(0, 12)),
                                                      time));
  for (size_t i = 0; i < lines.size(); ++i) {
    time += seconds[i];
    MANTISSA_RETURN_IF_ERROR(events.write(time, lines[i].step, scalars_of(lines[i])));
  }
  return events;
}

Scalars scalars_of(const MetricsLine& line) {
  Scalars scalars = {{"train/loss", line.loss},
                     {"train/accuracy", line.accuracy},
                     {"train/learning_rate", line.learning_rate},
                     {"train/examples_per_second", line.examples_per_second},
                     {"train/saturation_rate", line.saturation_rate}};
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) scalars.emplace_back(name, *value);
  };
  add("train/gradient_norm", line.gradient_norm);
  add("validation/loss", line.validation_loss);
  add("validation/accuracy", line.validation_accuracy);
  return scalars;
}

double wall_time_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace mantissa
