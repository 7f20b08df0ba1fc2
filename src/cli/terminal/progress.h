// Shows how a run gets on: one line drawn over and over on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "cli/terminal/terminal.h"
#include "mantissa/mantissa.h"

namespace mantissa::cli {

// The bar's line, at most `width` columns: epoch, bar, percentage, loss, accuracy, rate and time
// left; in narrow windows some of them shorten or give way. Without a number of steps, no bar.
std::string progress_line(const Progress& progress, const Terminal& terminal, int width);

// Writes to standard error. Checkpoints, messages and finished epochs are lines that stay.
class ProgressDisplay {
 public:
  // `quiet`: shows only messages.
  ProgressDisplay(const Terminal& terminal, bool quiet);
  ~ProgressDisplay() { clear(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void show(const Progress& progress);

  // Removes the bar. Later output begins on a clean line.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  void print_line(const std::string& line);
  void show_step(const Progress& progress);
  void show_phase(const Progress& progress);
  void finish_epoch();
  void draw(const Progress& progress);

  Terminal terminal_;
  bool quiet_ = false;
  bool bar_is_drawn_ = false;
  Clock::time_point last_drawn_;

  std::optional<Progress> last_step_;             // of the epoch being trained
  std::optional<Clock::time_point> epoch_start_;  // or when it was resumed
};

}  // namespace mantissa::cli
