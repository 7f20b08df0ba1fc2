#include "api/target.h"

#include <filesystem>

#include "base/files/file_system.h"

namespace mantissa {

Status check_target(const std::string& option, const std::string& file) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(file).parent_path();
  if (!folder.empty()) {
    MANTISSA_ASSIGN(const PathKind kind, path_kind(folder));
    if (kind != PathKind::kFolder) {
      return invalid_input("--" + option + ": there is no folder " + folder.string());
    }
  }
  std::error_code error;
  const fs::file_type type = fs::symlink_status(file, error).type();
  if (type == fs::file_type::none) return file_error("examine", file, error.value());
  if (type == fs::file_type::not_found || type == fs::file_type::regular) return {};
  return invalid_input("--" + option + ": " + file +
                       " is no regular file: name one, or one to be created");
}

}  // namespace mantissa
