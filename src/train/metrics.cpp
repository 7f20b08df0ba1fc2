#include "train/metrics.h"

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "base/atomic_file.h"

namespace mantissa {

Result<MetricsWriter> MetricsWriter::open(const std::filesystem::path& path, int64_t last_step) {
  std::string kept;
  {
    std::ifstream old(path);
    std::string line;
    while (std::getline(old, line)) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (json.is_discarded() || !json.is_object() || !json.contains("step")) break;
      if (!json["step"].is_number_integer() || json["step"].get<int64_t>() > last_step) break;
      kept += line + "\n";
    }
  }
  const std::span<const std::byte> piece = std::as_bytes(std::span(kept));
  MANTISSA_RETURN_IF_ERROR(write_file_atomically(path, std::span(&piece, 1)));
  std::ofstream file(path, std::ios::app);
  if (!file) return failed(path.string() + ": cannot be written");
  return MetricsWriter(path, std::move(file));
}

Status MetricsWriter::write(const MetricsLine& line) {
  nlohmann::ordered_json json = {{"step", line.step},
                                 {"epoch", line.epoch},
                                 {"loss", line.loss},
                                 {"accuracy", line.accuracy},
                                 {"learning_rate", line.learning_rate},
                                 {"examples_per_second", line.examples_per_second},
                                 {"saturation_rate", line.saturation_rate}};
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) json[name] = *value;
  };
  add("gradient_norm", line.gradient_norm);
  add("validation_loss", line.validation_loss);
  add("validation_accuracy", line.validation_accuracy);
  file_ << json.dump() << '\n' << std::flush;
  if (!file_) return failed(path_.string() + ": cannot be written (is the disk full?)");
  return {};
}

}  // namespace mantissa
