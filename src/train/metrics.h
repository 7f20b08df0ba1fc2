// metrics.jsonl: one line per report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "base/result.h"

namespace mantissa {

struct MetricsLine {
  int64_t step = 0;
  double epoch = 0;
  double loss = 0, accuracy = 0;
  double learning_rate = 0;
  double examples_per_second = 0;
  double saturation_rate = 0;
  std::optional<double> gradient_norm = std::nullopt;    // with clipping, of the last step
  std::optional<double> validation_loss = std::nullopt;  // at the end of an epoch
  std::optional<double> validation_accuracy = std::nullopt;
};

class MetricsWriter {
 public:
  // Opens `path` for appending, after cutting it back to the lines with step <= `last_step` (a line
  // that an interrupted write left incomplete goes too).
  static Result<MetricsWriter> open(const std::filesystem::path& path, int64_t last_step);

  Status write(const MetricsLine& line);

 private:
  MetricsWriter(std::filesystem::path path, std::ofstream file)
      : path_(std::move(path)), file_(std::move(file)) {}
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace mantissa
