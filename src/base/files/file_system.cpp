#include "base/files/file_system.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

namespace mantissa {
namespace {

namespace fs = std::filesystem;

bool means_nothing_there(int reason) { return reason == ENOENT || reason == ENOTDIR; }

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

}  // namespace

std::string file_message(const char* action, const fs::path& path, int reason) {
  return std::string("cannot ") + action + " '" + path.string() + "': " + std::strerror(reason);
}

Error file_error(const char* action, const fs::path& path, int reason, SourceLocation where) {
  constexpr int kOfThePath[] = {ENOENT, ENOTDIR, EISDIR, EACCES, EPERM,       ELOOP,
                                EROFS,  EINVAL,  ENXIO,  EEXIST, ENAMETOOLONG};
  const bool of_the_path =
      std::find(std::begin(kOfThePath), std::end(kOfThePath), reason) != std::end(kOfThePath);
  return make_error(of_the_path ? ErrorCode::kInvalidInput : ErrorCode::kFailed,
                    file_message(action, path, reason), where);
}

Result<PathKind> path_kind(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (means_nothing_there(errno)) return PathKind::kNothing;
    return file_error("examine", path, errno);
  }
  if (S_ISREG(status.st_mode)) return PathKind::kFile;
  return S_ISDIR(status.st_mode) ? PathKind::kFolder : PathKind::kOther;
}

Result<bool> is_there(const fs::path& path) {
  MANTISSA_ASSIGN(const PathKind kind, path_kind(path));
  return kind != PathKind::kNothing;
}

Result<std::vector<std::string>> list_names(const fs::path& folder) {
  const std::unique_ptr<DIR, CloseFolder> listing(::opendir(folder.c_str()));
  if (listing == nullptr) return file_error("list", folder, errno);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(listing.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) return file_error("list", folder, errno);
  std::sort(names.begin(), names.end());
  return names;
}

Status make_folder(const fs::path& folder) {
  MANTISSA_ASSIGN(const PathKind kind, path_kind(folder));
  if (kind == PathKind::kFolder) return {};
  if (kind != PathKind::kNothing) return file_error("make the folder", folder, ENOTDIR);
  // Not by std::filesystem: its answer for a parent that cannot be read depends on its version.
  const fs::path parent = folder.parent_path();
  if (!parent.empty() && parent != folder) MANTISSA_RETURN_IF_ERROR(make_folder(parent));
  if (::mkdir(folder.c_str(), 0777) == 0) return {};
  const int why = errno;
  // Another process may have made it; and "folder/" is "folder".
  MANTISSA_ASSIGN(const PathKind now, path_kind(folder));
  if (why == EEXIST && now == PathKind::kFolder) return {};
  return file_error("make the folder", folder, why);
}

Status remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) == 0 || means_nothing_there(errno)) return {};
  return file_error("remove", path, errno);
}

}  // namespace mantissa
