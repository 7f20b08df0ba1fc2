// The messages of mpirun on standard error, and the messages of processes that it passes on.
#pragma once

#include <optional>
#include <string>

namespace mantissa::cli {

// A process that a signal ended.
struct EndedProcess {
  int process = 0, signal = 0;
};

// Takes the text in pieces and returns the part for the user. mpirun's framed notes about a failed
// process are left out, since the process or launch reports the failure itself.
class MpirunMessages {
 public:
  std::string take(const std::string& text);
  std::string rest();
  // As far as mpirun has said.
  std::optional<EndedProcess> ended() const { return ended_; }

 private:
  std::string take_line(const std::string& line);

  std::string line_;   // begun
  std::string frame_;  // of a note whose end has not come
  bool in_frame_ = false;
  std::optional<EndedProcess> ended_;
};

}  // namespace mantissa::cli
