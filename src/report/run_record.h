// The readable contents of a run's folder: it may be damaged, or its run may still be going on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/trace.h"

namespace mantissa {

// A named column of numbers over steps; NaN if a line has none.
struct Series {
  std::vector<double> steps, values;
};

// A tensor of tensors.jsonl over the sampled steps.
struct TensorHistory {
  std::string name, kind, written_by;
  int bits = 0;
  // Per sampled step. Repeated: how often it was computed again, as re-execution or misprediction.
  std::vector<double> exponent, saturation_rate, bit_use, largest_bits, repeated;
  std::vector<int64_t> bit_counts;  // by bit length, in the last step that has histograms
  // The part of the elements that have a bit length: by length, in each of histogram_steps.
  std::vector<std::vector<double>> bit_shares;
};

struct RunRecord {
  std::filesystem::path folder;
  std::string name;                             // short, for legends
  std::map<std::string, std::string> settings;  // of config.toml
  std::map<std::string, Series> metrics;        // by key of metrics.jsonl
  nlohmann::json summary, evaluation;           // objects, empty if there are none
  std::vector<double> tensor_steps;
  std::vector<double> histogram_steps;  // of the sampled steps with histograms
  std::vector<TensorHistory> tensors;
  std::optional<pipeline::Trace> trace;  // of its stages, if it has one
  std::vector<std::string> problems;     // missing or damaged parts, a line each
};

// Reads a run's folder. An error only if there is no such folder or it has no file of a run. All
// other faults become problems.
Result<RunRecord> read_run(const std::filesystem::path& folder);

// Entries of a JSON object, or a default if they are missing or of another type.
double number_of(const nlohmann::json& object, const char* key, double otherwise);
std::string text_of(const nlohmann::json& object, const char* key);

}  // namespace mantissa
