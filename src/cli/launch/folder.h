// The temporary folders of a launch, and the guard that removes them if the launch is killed.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace mantissa::cli {

// A folder for files, including Open MPI's, and one in memory for messages between processes of
// this machine. Makes them, and removes all folders of launches that were killed
// with their guards.
class LaunchFolder {
 public:
  LaunchFolder();
  ~LaunchFolder() { remove(); }
  LaunchFolder(const LaunchFolder&) = delete;
  LaunchFolder& operator=(const LaunchFolder&) = delete;

  // "" if they could not be made.
  const std::string& path() const { return path_; }
  const std::string& memory() const { return memory_; }
  void remove() const;

 private:
  std::string path_, memory_;
  int lock_ = -1;  // held as long as this process lives, or its guard
};

// A process that outlives this one by a moment: should this one be killed, it ends the child as
// SIGTERM does, then by force, and removes the folder.
class LaunchGuard {
 public:
  explicit LaunchGuard(const LaunchFolder& folder);
  ~LaunchGuard();
  LaunchGuard(const LaunchGuard&) = delete;
  LaunchGuard& operator=(const LaunchGuard&) = delete;

  // The leader of a process group, from now on.
  void guards(pid_t child) const;

 private:
  int pipe_ = -1;
  pid_t guard_ = -1;
};

}  // namespace mantissa::cli
