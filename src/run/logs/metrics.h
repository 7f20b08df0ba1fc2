// A line of metrics.jsonl.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace mantissa {

// The same of one output of several.
struct OutputMetrics {
  double loss = 0;
  std::optional<double> accuracy = std::nullopt;
  std::optional<double> validation_loss = std::nullopt;
  std::optional<double> validation_accuracy = std::nullopt;
};

// The means of the steps since the line before; step, epoch and learning rate are the last ones.
struct MetricsLine {
  int64_t step = 0;
  double epoch = 0;
  double loss = 0;
  std::optional<double> accuracy = std::nullopt;  // of classes
  double learning_rate = 0;
  double examples_per_second = 0;
  double saturation_rate = 0;
  std::optional<double> gradient_norm = std::nullopt;    // with clipping, of the last step
  std::optional<double> validation_loss = std::nullopt;  // at the end of an epoch
  std::optional<double> validation_accuracy = std::nullopt;
  std::map<std::string, OutputMetrics> outputs = {};  // by name, if there are several
};

// Entries of outputs are called "loss.NAME" and so on.
nlohmann::ordered_json to_json(const MetricsLine& line);

// part / all; 0 of nothing.
double fraction(int64_t part, int64_t all);

}  // namespace mantissa
