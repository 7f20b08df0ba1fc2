// The files of a run's folder, beside its checkpoints (docs/run-folder.md).
#pragma once

#include <array>

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

}  // namespace mantissa
