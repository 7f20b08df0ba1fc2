#include "api/target.h"

#include <filesystem>
#include <span>

#include "base/atomic_file.h"

namespace mantissa {

Status check_target(const std::string& file) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(file).parent_path();
  std::error_code unreadable;
  if (!folder.empty() && !fs::is_directory(folder, unreadable)) {
    return invalid_input("--out: there is no folder " + folder.string());
  }
  const fs::file_type type = fs::symlink_status(file, unreadable).type();
  if (type == fs::file_type::not_found || type == fs::file_type::regular) return {};
  return invalid_input("--out: " + file + " is no regular file: name one, or one to be created");
}

Status write_target(const std::string& file, const std::string& text) {
  const std::span<const std::byte> piece = std::as_bytes(std::span(text));
  return write_file_atomically(file, std::span(&piece, 1));
}

}  // namespace mantissa
