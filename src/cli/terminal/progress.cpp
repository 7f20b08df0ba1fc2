#include "cli/terminal/progress.h"

#include <algorithm>
#include <vector>

#include "cli/terminal/text.h"

namespace mantissa::cli {
namespace {

using std::chrono::milliseconds;

constexpr int kNarrowestBar = 10, kWidestBar = 30;
constexpr milliseconds kRedraw{80}, kPlainLine{5000};

double fraction_done(const Progress& progress) {
  if (progress.steps <= 0) return 0;
  return std::clamp(static_cast<double>(progress.step) / static_cast<double>(progress.steps), 0.0,
                    1.0);
}

std::string whole_percent(const Progress& progress) {
  return std::to_string(static_cast<int>(100 * fraction_done(progress)));
}

std::string position(const Progress& progress) {
  if (progress.kind == Progress::Kind::kEvaluating) return "testing";
  if (progress.kind == Progress::Kind::kTranslating) return "translating";
  if (progress.kind == Progress::Kind::kValidating) return "validating";
  if (progress.kind == Progress::Kind::kPretraining) return "pre-training in fp32";
  if (progress.kind == Progress::Kind::kReestimating) return "statistics of batch norms";
  if (progress.epochs > 0) {
    return "epoch " + std::to_string(std::clamp<int64_t>(progress.epoch, 1, progress.epochs)) +
           "/" + std::to_string(progress.epochs);
  }
  return "step " + std::to_string(progress.step) + "/" + std::to_string(progress.steps);
}

std::string bar(double fraction, int width, const Terminal& terminal) {
  const int halves = static_cast<int>(fraction * 2 * width);
  const int full = halves / 2, half = halves % 2;
  std::string done, rest;
  for (int i = 0; i < full; ++i) done += terminal.symbol("━", "#");
  if (half) done += terminal.symbol("╸", "=");
  for (int i = full + half; i < width; ++i) rest += terminal.symbol("─", "-");
  return terminal.paint("36", done) + terminal.paint("2", rest);
}

// The text beside the bar. `terseness` 0 says everything; each step up says less.
std::string facts(const Progress& progress, int terseness) {
  std::string text;
  const auto add = [&text](const std::string& fact) { text += "  " + fact; };
  const bool known = progress.loss > 0 || progress.accuracy > 0;
  if (known && terseness < 5) add("loss " + decimal(progress.loss, 3));
  if (known && progress.accuracy >= 0 && terseness < 4) {
    add((terseness == 0 ? "accuracy " : "acc ") + percent(progress.accuracy, 1));
  }
  if (progress.examples_per_second > 0 && terseness < 3) {
    add(grouped(progress.examples_per_second) + (terseness < 2 ? " examples/s" : "/s"));
  }
  if (progress.seconds_left > 0 && terseness < 6) add(clock_time(progress.seconds_left) + " left");
  return text;
}

}  // namespace

std::string progress_line(const Progress& progress, const Terminal& terminal, int width) {
  if (progress.steps <= 0) return shortened(position(progress), width);
  const std::string head = position(progress) + "  ";
  const std::string share = " " + pad_left(whole_percent(progress), 3) + " %";
  for (int terseness = 0; terseness <= 6; ++terseness) {
    const std::string tail = share + facts(progress, terseness);
    const int room = width - columns(head) - columns(tail);
    if (room < kNarrowestBar) continue;
    return head + bar(fraction_done(progress), std::min(room, kWidestBar), terminal).append(tail);
  }
  return shortened(head + share, width);
}

ProgressDisplay::ProgressDisplay(const Terminal& terminal, bool quiet)
    : terminal_(terminal), quiet_(quiet) {}

void ProgressDisplay::clear() {
  if (bar_is_drawn_) write_message(terminal_.descriptor, "\r\033[K");
  bar_is_drawn_ = false;
}

void ProgressDisplay::print_line(const std::string& line) {
  // One write: the bar goes and the line comes without a flicker.
  const std::string start = bar_is_drawn_ ? "\r\033[K" : "";
  write_message(terminal_.descriptor, start + line + "\n");
  bar_is_drawn_ = false;
}

void ProgressDisplay::show(const Progress& progress) {
  switch (progress.kind) {
    case Progress::Kind::kStarting:
      break;
    case Progress::Kind::kMessage:
      print_line(printable(progress.message));
      break;
    case Progress::Kind::kCheckpoint:
      if (!quiet_) print_line(terminal_.paint("2", "saved " + printable(progress.message)));
      break;
    case Progress::Kind::kPretraining:
    case Progress::Kind::kReestimating:
    case Progress::Kind::kEvaluating:
    case Progress::Kind::kTranslating:
      if (!quiet_) show_phase(progress);
      break;
    case Progress::Kind::kValidating:  // belongs to the epoch
      if (!quiet_) draw(progress);
      break;
    case Progress::Kind::kStep:
      if (!quiet_) show_step(progress);
      break;
  }
}

void ProgressDisplay::show_step(const Progress& progress) {
  if (last_step_ && last_step_->epoch != progress.epoch) finish_epoch();
  if (!epoch_start_) epoch_start_ = Clock::now();
  last_step_ = progress;
  if (progress.steps > 0 && progress.step >= progress.steps) return finish_epoch();
  draw(progress);
}

void ProgressDisplay::show_phase(const Progress& progress) {
  finish_epoch();
  draw(progress);
}

void ProgressDisplay::draw(const Progress& progress) {
  const auto now = Clock::now();
  if (now - last_drawn_ < (terminal_.redraws ? kRedraw : kPlainLine)) return;
  last_drawn_ = now;
  if (terminal_.redraws) {
    // The last column stays free: some terminals wrap as soon as it is written.
    const std::string line = progress_line(progress, terminal_, terminal_.width() - 1);
    write_message(terminal_.descriptor, "\r" + line + "\033[K");
    bar_is_drawn_ = true;
  } else if (progress.steps > 0) {
    print_line(position(progress) + "  " + whole_percent(progress) + " %" + facts(progress, 0));
  }
}

void ProgressDisplay::finish_epoch() {
  if (last_step_ && last_step_->epoch > 0) {
    last_step_->seconds_left = 0;  // stands in the bar only
    const std::chrono::duration<double> time = Clock::now() - *epoch_start_;
    print_line(position(*last_step_) + facts(*last_step_, 0) + "  in " + duration(time.count()));
  }
  last_step_.reset();
  epoch_start_ = Clock::now();
}

}  // namespace mantissa::cli
