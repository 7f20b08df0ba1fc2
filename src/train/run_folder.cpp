#include "train/run_folder.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/file_system.h"
#include "train/checkpoint.h"

namespace mantissa {
namespace {

bool is_of_a_run(const std::string& name) {
  return checkpoint_step(name) ||
         std::find(kRunFiles.begin(), kRunFiles.end(), name) != kRunFiles.end();
}

Status check_is_free(const RunConfig& config) {
  MANTISSA_ASSIGN(const std::vector<std::string> names, list_names(config.out));
  const bool taken = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name == kConfigFile || name == kSummaryFile || checkpoint_step(name);
  });
  if (!taken || config.resume || config.overwrite) return {};
  return invalid_input(config.out +
                       ": holds a run already; go on with --resume or replace it with --overwrite");
}

}  // namespace

Result<FolderLock> prepare_run_folder(const RunConfig& config) {
  if (config.out.empty()) return invalid_input("--out: name a folder for the results");
  const std::filesystem::path folder = config.out;
  MANTISSA_RETURN_IF_ERROR(make_folder(folder));
  MANTISSA_RETURN_IF_ERROR(check_is_free(config));
  MANTISSA_ASSIGN(FolderLock lock, FolderLock::acquire(folder));
  // Again: another run may have ended there in between.
  MANTISSA_RETURN_IF_ERROR(check_is_free(config));
  return lock;
}

Status remove_run(const std::filesystem::path& folder) {
  // Listed before anything is removed.
  MANTISSA_ASSIGN(const std::vector<int64_t> steps, list_checkpoints(folder));
  for (const char* name : {kSummaryFile, kEvaluationFile, kModelFile}) {
    MANTISSA_RETURN_IF_ERROR(remove_file(folder / name));
  }
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    MANTISSA_RETURN_IF_ERROR(remove_file(checkpoint_path(folder, *step)));
  }
  for (const char* name : kRunFiles) MANTISSA_RETURN_IF_ERROR(remove_file(folder / name));
  return {};
}

Status tidy_run_folder(const std::filesystem::path& folder) {
  MANTISSA_ASSIGN(const std::vector<std::string> names, list_names(folder));
  for (const std::string& name : names) {
    if (!is_of_a_run(temporary_target(name))) continue;
    MANTISSA_RETURN_IF_ERROR(remove_dead_temporary(folder / name));
  }
  return rotate_checkpoints(folder);
}

}  // namespace mantissa
