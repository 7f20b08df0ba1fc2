// A run's folder, and its files beside the checkpoints (docs/run-folder.md).
#pragma once

#include <array>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "train/run_config.h"

namespace mantissa {

inline constexpr const char* kConfigFile = "config.toml";
inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kHashesFile = "hashes.jsonl";
inline constexpr const char* kTensorsFile = "tensors.jsonl";
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kEvaluationFile = "evaluation.json";
inline constexpr const char* kSummaryFile = "summary.json";
inline constexpr const char* kBestFile = "best.safetensors";  // with early stopping

// All of them: what --overwrite removes.
inline constexpr std::array kRunFiles = {kSummaryFile, kEvaluationFile, kModelFile,  kMetricsFile,
                                         kHashesFile,  kTensorsFile,    kConfigFile, kBestFile};

// What a run is called: the last part of its folder's path.
std::string run_name(const std::filesystem::path& folder);

// Makes the folder config.out. It may hold a run only if the settings say what becomes of that:
// `resume` or `overwrite`. Else an error, as where it cannot be made.
Status prepare_run_folder(const RunConfig& config);

// Removes a run's files and checkpoints, as far as they can be removed; others stay.
void remove_run(const std::filesystem::path& folder);

}  // namespace mantissa
