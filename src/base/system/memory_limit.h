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

// The least of what the machine has and what the control groups of this process (cgroup, version 2
// or 1; containers are such) and those above them allow. `proc` and `cgroups` are where Linux shows
// both; what cannot be read there is no limit.
MemoryLimit memory_limit(const std::filesystem::path& proc = "/proc",
                         const std::filesystem::path& cgroups = "/sys/fs/cgroup");

}  // namespace mantissa
