// One process at a time in a folder.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace mantissa {

// Holds a folder (flock on its file "lock") until destroyed. If the process dies, the system
// releases it.
class FolderLock {
 public:
  // An error if another process holds it.
  static Result<FolderLock> acquire(const std::filesystem::path& folder);

  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace mantissa
