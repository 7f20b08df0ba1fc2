#include "run/logs/metrics.h"

#include <nlohmann/json.hpp>

namespace mantissa {

nlohmann::ordered_json to_json(const MetricsLine& line) {
  nlohmann::ordered_json json = {{"step", line.step}, {"epoch", line.epoch}, {"loss", line.loss}};
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) json[name] = *value;
  };
  add("accuracy", line.accuracy);
  add("learning_rate", line.learning_rate);
  add("examples_per_second", line.examples_per_second);
  add("saturation_rate", line.saturation_rate);
  add("gradient_norm", line.gradient_norm);
  add("validation_loss", line.validation_loss);
  add("validation_accuracy", line.validation_accuracy);
  for (const auto& [name, output] : line.outputs) {
    json["loss." + name] = output.loss;
    add(("accuracy." + name).c_str(), output.accuracy);
    add(("validation_loss." + name).c_str(), output.validation_loss);
    add(("validation_accuracy." + name).c_str(), output.validation_accuracy);
  }
  return json;
}

double fraction(int64_t part, int64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace mantissa
