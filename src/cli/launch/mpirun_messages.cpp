#include "cli/launch/mpirun_messages.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace mantissa::cli {
namespace {

bool is_rule(const std::string& line) {
  return line.size() >= 40 && std::ranges::all_of(line, [](char c) { return c == '-'; });
}

// Notes about an end that another message reports.
bool is_known(const std::string& frame) {
  return std::ranges::any_of(
      std::array{"Primary job  terminated normally", "exited with non-zero status",
                 "without calling \"finalize\"", "exited improperly", "noticed that process rank",
                 "MPI_ABORT was invoked", "has lost communication", "user-specified signal",
                 "attempting to cleanly terminate", "does not know how to route"},
      [&](const char* text) { return frame.find(text) != std::string::npos; });
}

// Versions of Open MPI break their lines at different words.
std::string in_one_line(std::string frame) {
  std::ranges::replace(frame, '\n', ' ');
  return frame;
}

// The number after a text.
std::optional<int> number_behind(const std::string& frame, const std::string& text) {
  const size_t at = frame.find(text);
  if (at == std::string::npos) return std::nullopt;
  return std::atoi(frame.c_str() + at + text.size());
}

}  // namespace

std::string MpirunMessages::take(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    line_ += c;
    if (c == '\n') shown += take_line(std::exchange(line_, ""));
  }
  return shown;
}

std::string MpirunMessages::take_line(const std::string& line) {
  const bool rule = is_rule(line.substr(0, line.size() - 1));
  // Messages about memory of a process that is gone, and about signals that launch asked
  // mpirun to forward.
  if (line.find("] Read -1, expected") != std::string::npos) return "";
  if (line.find("mpirun: Forwarding signal") != std::string::npos) return "";
  if (!rule && !in_frame_) return line;
  frame_ += line;
  if (!rule) return "";
  in_frame_ = !in_frame_;
  if (in_frame_) return "";
  const std::string frame = std::exchange(frame_, "");
  const std::string text = in_one_line(frame);
  const auto process = number_behind(text, "noticed that process rank ");
  const auto signal = number_behind(text, "exited on signal ");
  if (process && signal && !ended_) ended_ = EndedProcess{*process, *signal};
  return is_known(text) ? "" : frame;
}

std::string MpirunMessages::rest() {
  std::string shown = std::exchange(frame_, "") + std::exchange(line_, "");
  return is_known(in_one_line(shown)) ? "" : shown;
}

}  // namespace mantissa::cli
