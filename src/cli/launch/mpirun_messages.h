// The messages of mpirun on standard error, and those of the processes that come through it.
#pragma once

#include <optional>
#include <string>

namespace mantissa::cli {

// A process that a signal ended.
struct EndedProcess {
  int process = 0, signal = 0;
};

// Takes the text in pieces and gives back what people are to see: mpirun's framed notes about a
// process that failed are left out, since the process says so itself, or launch does.
class MpirunMessages {
 public:
  std::string take(const std::string& text);
  std::string rest();
  // As far as mpirun has told.
  std::optional<EndedProcess> ended() const { return ended_; }

 private:
  std::string take_line(const std::string& line);

  std::string line_;   // begun
  std::string frame_;  // of a note whose end has not come
  bool in_frame_ = false;
  std::optional<EndedProcess> ended_;
};

}  // namespace mantissa::cli
