// Puts right the streams and signals that a process inherits, and tells when it is asked to stop.
#pragma once

#include <span>
#include <string>

namespace mantissa::cli {

// To be called before anything else. Grows the stack while there is address space for it. Opens
// /dev/null if standard input, output or error is closed: a file that is opened later would take
// its number, and messages would go into that file. A closed pipe or a limit on file sizes becomes
// an error of the writer and does not end the process. Signals that ask to stop are held back until
// the process can handle them.
void prepare_process();

// From here on requests to stop change nothing, except SIGTERM.
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
// comes more than 0.3 s later ends the process at once. While there is nothing to save yet, the
// first one ends it too, if nothing else does within 0.6 s, whatever it waits for. Signals that
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

// Files, and folders if they are empty then, that are removed when a signal ends the process. An
// empty `paths`: none from now on. At most four.
void remove_when_ended(std::span<const std::string> paths);

}  // namespace mantissa::cli
