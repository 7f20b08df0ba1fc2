// A file of hosts as mpirun reads it.
#pragma once

#include <string>

namespace mantissa::cli {

// The file itself. If Windows wrote it, it has carriage returns or a byte order mark, which mpirun
// takes for parts of names: then a copy in memory without them, which mpirun inherits.
class HostFile {
 public:
  explicit HostFile(const std::string& path);
  ~HostFile();
  HostFile(const HostFile&) = delete;
  HostFile& operator=(const HostFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int copy_ = -1;
};

}  // namespace mantissa::cli
