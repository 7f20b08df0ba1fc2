#include "train/run_folder.h"

#include <system_error>

#include "train/checkpoint.h"

namespace mantissa {

namespace fs = std::filesystem;

std::string run_name(const fs::path& folder) {
  std::error_code error;
  const fs::path whole = fs::absolute(folder, error).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

Status prepare_run_folder(const RunConfig& config) {
  if (config.out.empty()) return invalid_input("--out: name a folder for the results");
  const fs::path folder = config.out;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder, error)) {
    return invalid_input(folder.string() + ": cannot be made a folder: " + error.message());
  }
  const bool holds_run = fs::exists(folder / kConfigFile, error) ||
                         fs::exists(folder / kSummaryFile, error) ||
                         !list_checkpoints(folder).empty();
  if (holds_run && !config.resume && !config.overwrite) {
    return invalid_input(folder.string() +
                         ": holds a run already; go on with --resume or replace it with "
                         "--overwrite");
  }
  return {};
}

void remove_run(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : kRunFiles) fs::remove(folder / name, ignored);
  for (const int64_t step : list_checkpoints(folder)) {
    fs::remove(checkpoint_path(folder, step), ignored);
  }
}

}  // namespace mantissa
