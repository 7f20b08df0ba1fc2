#include "base/files/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/files/file_system.h"

namespace mantissa {

Result<FolderLock> FolderLock::acquire(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "lock";
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return file_error("open", path, errno);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return FolderLock(descriptor);
  const int reason = errno;
  ::close(descriptor);
  if (reason != EWOULDBLOCK) return file_error("lock", path, reason);
  return invalid_input(folder.string() + ": another process is training there");
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
