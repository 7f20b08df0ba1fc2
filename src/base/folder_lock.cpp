#include "base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace mantissa {

Result<FolderLock> FolderLock::acquire(const std::filesystem::path& folder) {
  const std::string path = (folder / "lock").string();
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return invalid_input(path + ": " + std::strerror(errno));
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return FolderLock(descriptor);
  const bool held = errno == EWOULDBLOCK;
  const std::string reason = std::strerror(errno);
  ::close(descriptor);
  if (held) return invalid_input(folder.string() + ": another process is training there");
  return invalid_input(path + ": " + reason);
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

}  // namespace mantissa
