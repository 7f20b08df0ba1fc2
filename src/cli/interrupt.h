// Ctrl-C: the first one asks to stop, the second one kills.
#pragma once

namespace mantissa::cli {

// While one lives, the first SIGINT or SIGTERM prints `message` to standard error and sets
// requested(); one that comes later than 0.3 s after it ends the process at once. A SIGINT that was
// ignored (as it is in background jobs of scripts) is handled too: whoever sends it there means it.
// One at a time.
class Interrupt {
 public:
  // `message` has no line end and must outlive this. `over_a_bar`: clears the line first.
  Interrupt(const char* message, bool over_a_bar);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const;
};

}  // namespace mantissa::cli
