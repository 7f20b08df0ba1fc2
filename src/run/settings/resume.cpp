#include "run/settings/resume.h"

#include <filesystem>

#include "base/files/file_system.h"
#include "run/settings/config_file.h"
#include "run/settings/run_folder.h"

namespace mantissa {

namespace fs = std::filesystem;

Status check_same_settings(const RunConfig& config) {
  const fs::path path = fs::path(config.out) / kConfigFile;
  MANTISSA_ASSIGN(const bool there, is_there(path));
  if (!there) return {};
  MANTISSA_ASSIGN(const ConfigFile file, read_config(path));
  const Result<RunConfig> before = make_run_config(file.settings, file.derived);
  if (!before.ok()) {
    return make_error(before.error().code, path.string() + ": " + before.error().message);
  }
  const std::string differing = differing_settings(*before, config);
  if (differing.empty()) return {};
  return invalid_input(config.out + ": holds a run with other settings: " + differing +
                       "; --resume takes those of its config.toml where none are named; for a "
                       "run with others name another --out");
}

}  // namespace mantissa
