// How much memory this process may take before the system ends it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace mantissa {

struct MemoryLimit {
  int64_t bytes = 0;   // 0: none is known
  std::string source;  // the file that says so
};

// The least of the machine's memory and the limits of this process's control groups (cgroup,
// version 2 or 1; containers use them) and the groups above them. `proc` and `cgroups` are the
// folders in which Linux shows both; unreadable files set no limit.
MemoryLimit memory_limit(const std::filesystem::path& proc = "/proc",
                         const std::filesystem::path& cgroups = "/sys/fs/cgroup");

}  // namespace mantissa
