#include "run/settings/run_folder.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/files/atomic_file.h"
#include "base/files/file_system.h"
#include "run/checkpoint.h"

namespace mantissa {
namespace {

bool is_of_a_run(const std::string& name) {
  return checkpoint_step(name) ||
         std::find(kRunFiles.begin(), kRunFiles.end(), name) != kRunFiles.end();
}

// Any file that starting anew would remove counts, whoever made it.
Status check_is_free(const RunConfig& config) {
  if (config.resume || config.overwrite) return {};
  MANTISSA_ASSIGN(const std::vector<std::string> names, list_names(config.out));
  const auto found = std::find_if(names.begin(), names.end(), is_of_a_run);
  if (found == names.end()) return {};
  return invalid_input(config.out + ": holds a run already (" + *found +
                       "); go on with --resume or replace it with --overwrite");
}

}  // namespace

std::string run_name(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(folder, error).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

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

Status check_nothing_is_lost(const std::filesystem::path& folder) {
  MANTISSA_ASSIGN(const std::vector<std::string> names, list_names(folder));
  const bool has_config = std::binary_search(names.begin(), names.end(), kConfigFile);
  const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return has_config ? name == kModelFile
                      : is_of_a_run(name) && name != kNetworkFile && name != kStartFile;
  });
  if (found == names.end()) return {};
  return invalid_input(folder.string() + ": has " + *found + " and no " +
                       (has_config ? "checkpoint to go on from" : kConfigFile) +
                       "; --overwrite begins anew");
}

Status remove_run(const std::filesystem::path& folder, bool keeps_start) {
  // Listed before anything is removed.
  MANTISSA_ASSIGN(const std::vector<int64_t> steps, list_checkpoints(folder));
  for (const char* name : {kSummaryFile, kEvaluationFile, kModelFile}) {
    MANTISSA_RETURN_IF_ERROR(remove_file(folder / name));
  }
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    MANTISSA_RETURN_IF_ERROR(remove_file(checkpoint_path(folder, *step)));
  }
  for (const char* name : kRunFiles) {
    if (keeps_start && name == std::string_view(kStartFile)) continue;
    MANTISSA_RETURN_IF_ERROR(remove_file(folder / name));
  }
  return {};
}

void remove_traces(const std::filesystem::path& folder) {
  const auto lock = FolderLock::acquire(folder);
  std::error_code ignored;
  if (!lock.ok() || std::filesystem::exists(folder / kConfigFile, ignored)) return;
  for (const char* name : {kNetworkFile, kStartFile, "lock"}) {
    std::filesystem::remove(folder / name, ignored);
  }
  std::filesystem::remove(folder, ignored);  // if it is empty
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
