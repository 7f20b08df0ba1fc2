#include "api/target.h"

#include <filesystem>

namespace mantissa {

Status check_target(const std::string& option, const std::string& file) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(file).parent_path();
  std::error_code unreadable;
  if (!folder.empty() && !fs::is_directory(folder, unreadable)) {
    return invalid_input("--" + option + ": there is no folder " + folder.string());
  }
  const fs::file_type type = fs::symlink_status(file, unreadable).type();
  if (type == fs::file_type::not_found || type == fs::file_type::regular) return {};
  return invalid_input("--" + option + ": " + file +
                       " is no regular file: name one, or one to be created");
}

}  // namespace mantissa
