// Puts right the streams and signals that a process inherits, and tells when it is asked to stop.
#pragma once

#include <span>
#include <string>

namespace mantissa::cli {

// To be called before anything else. Grows the stack while there is address space for it. Opens
// /dev/null where standard input, output or error is closed: a file that is opened later would take
// its number, and messages would go into that file. Makes a closed pipe and a limit on file sizes
// errors of what writes, not the end of the process. Holds signals that ask to stop back until
// something can be done about them.
void prepare_process();

// From here on requests to stop change nothing, but for SIGTERM.
void ignore_requests_to_stop();

// From here on they arrive again; one that was held back does at once.
void release_stop_signals();

// From the end of its life on they are held back again.
struct StopSignalsHeld {
  StopSignalsHeld() = default;
  ~StopSignalsHeld();
  StopSignalsHeld(const StopSignalsHeld&) = delete;
  StopSignalsHeld& operator=(const StopSignalsHeld&) = delete;
};

// While one lives, the first signal that asks to stop (SIGINT, SIGTERM, SIGHUP or SIGUSR1, which
// launchers of jobs hand on) prints `message` to standard error and sets requested(); one that
// comes later than 0.3 s after it ends the process at once. Before there is something to save, the
// first one ends it, too, if nothing else does within 0.6 s: whatever it waits for. Signals that
// were ignored when the process started (by nohup, or in background jobs of scripts) stay ignored.
// One at a time.
class Interrupt {
 public:
  // `message` has no line end and must outlive this. `over_a_bar`: clears the line first.
  Interrupt(const char* message, bool over_a_bar);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const;
  // From here on there is something to save.
  void begun();
};

// Whether an Interrupt was asked to stop.
bool stop_is_requested();

// Files, and folders that are empty then, that go when a signal ends the process; none from now on
// if `paths` is empty. At most four.
void remove_when_ended(std::span<const std::string> paths);

}  // namespace mantissa::cli
