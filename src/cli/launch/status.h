// The progress of a launch's processes, as launch sees it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

namespace mantissa::cli {

// A file of the first process that says where each process is.
class StatusFile {
 public:
  explicit StatusFile(std::string path);

  const std::string& path() const { return path_; }

  // Reads the file: the first process removes it when it gives up.
  void read();
  // The last status that was read: "process 1 (stage 2) in step 7, ...".
  std::string line_of(int process) const;

  // Whether it is there, whether it was written, and when last.
  bool is_there() const;
  bool is_written() const { return size() > 0; }
  timespec changed() const;

 private:
  int64_t size() const;
  std::string path_;
  std::vector<std::string> lines_;
};

// The processes of this machine that mpirun has started.
std::vector<pid_t> children_of(pid_t parent);

// Stopped by a signal, or by a debugger.
bool is_frozen(pid_t process);

}  // namespace mantissa::cli
