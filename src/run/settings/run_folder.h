// A run's folder, and its files beside the checkpoints (docs/run-folder.md).
#pragma once

#include <array>
#include <filesystem>
#include <string>

#include "base/files/folder_lock.h"
#include "base/result.h"
#include "run/settings/run_config.h"

namespace mantissa {

inline constexpr const char* kConfigFile = "config.toml";
inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kHashesFile = "hashes.jsonl";
inline constexpr const char* kTensorsFile = "tensors.jsonl";
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kEvaluationFile = "evaluation.json";
inline constexpr const char* kSummaryFile = "summary.json";
inline constexpr const char* kBestFile = "best.safetensors";  // with early stopping
inline constexpr const char* kTraceFile = "trace.json";       // if --trace names it

// All files that --overwrite removes.
inline constexpr std::array kRunFiles = {kSummaryFile, kEvaluationFile, kModelFile, kMetricsFile,
                                         kHashesFile,  kTensorsFile,    kBestFile,  kConfigFile,
                                         kNetworkFile, kStartFile,      kTraceFile};

// The name of a run: the last part of its folder's path.
std::string run_name(const std::filesystem::path& folder);

// Makes the folder config.out, and holds it. It may have files of a run only if the settings decide
// about them: `resume` or `overwrite`. Otherwise an error. It is also an error if the folder cannot
// be made, held or listed.
Result<FolderLock> prepare_run_folder(const RunConfig& config);

// An error if a folder without a checkpoint has files that a run with nothing saved does not leave:
// a trained network, or any without config.toml. config.toml is written before all other files and
// removed after them, except network.json and start.safetensors, which it names. Beginning anew
// would remove them.
Status check_nothing_is_lost(const std::filesystem::path& folder);

// Removes a run's files and checkpoints; other files stay. If it fails or is killed, the run can go
// on from an older checkpoint, or as a run with nothing saved. So results go first, then
// checkpoints from the newest to the oldest, then the logs. `keeps_start`: start.safetensors stays,
// since the run begins with it.
Status remove_run(const std::filesystem::path& folder, bool keeps_start = false);

// Removes the folder of a run that failed before it began: network.json, start.safetensors and the
// lock. A folder that has a config.toml or other files, or that another process holds, stays.
void remove_traces(const std::filesystem::path& folder);

// Removes the leftovers of killed processes in a folder that is held: temporaries of the run's
// files, and checkpoints older than the newest two.
Status tidy_run_folder(const std::filesystem::path& folder);

}  // namespace mantissa
