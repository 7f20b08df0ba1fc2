// A command of one function of the library and one printer of its result.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line/output.h"
#include "cli/terminal/process.h"
#include "cli/terminal/progress.h"
#include "mantissa/mantissa.h"

namespace mantissa::cli {

// The library's functions take the parts of a command line in these ways.
template <typename T>
Outcome<T> call(Outcome<T> (*function)(const Settings&), const CommandLine& line, const Observer&) {
  return function(line.settings);
}
template <typename T>
Outcome<T> call(Outcome<T> (*function)(const Settings&, const Observer&), const CommandLine& line,
                const Observer& observer) {
  return function(line.settings, observer);
}
template <typename T, typename Unused>
Outcome<T> call(Outcome<T> (*function)(const Settings&, const std::function<bool(Unused)>&),
                const CommandLine& line, const Observer&) {
  return function(line.settings, nullptr);
}
template <typename T, typename Shown>
Outcome<T> call(Outcome<T> (*function)(const Settings&, const std::vector<std::string>&,
                                       const std::function<bool(Shown)>&),
                const CommandLine& line, const Observer& observer) {
  if constexpr (std::is_same_v<Shown, const Progress&>) {
    return function(line.settings, {}, observer);
  } else {
    return function(line.settings, {}, nullptr);
  }
}
template <typename T>
Outcome<T> call(Outcome<T> (*function)(const std::string&, const Settings&),
                const CommandLine& line, const Observer&) {
  return function(line.paths[0], line.settings);
}
template <typename T>
Outcome<T> call(Outcome<T> (*function)(const std::string&, const std::string&),
                const CommandLine& line, const Observer&) {
  return function(line.paths[0], line.paths[1]);
}
template <typename T>
Outcome<T> call(Outcome<T> (*function)(const std::vector<std::string>&, const Settings&),
                const CommandLine& line, const Observer&) {
  return function(line.paths, line.settings);
}

// Does the work with an observer that shows how it gets on. With `stopping` Ctrl-C prints this
// text, and the work ends in good order; null: the process ends at once.
template <typename Work>
auto watched(const CommandLine& line, const char* stopping, const Work& work) {
  const Terminal terminal = describe_terminal(2);
  ProgressDisplay display(terminal, line.quiet);
  std::optional<Interrupt> interrupt;
  if (stopping != nullptr) interrupt.emplace(stopping, terminal.redraws);
  return work([&](const Progress& progress) {
    const bool stops = interrupt && interrupt->requested();
    if (!stops) display.show(progress);
    return !stops;
  });
}

enum class CtrlC { kEndsAtOnce, kEndsAfterStep };

// Returns the exit code. A problem beside the result is said after the result.
template <auto kFunction, auto kPrint, CtrlC kCtrlC = CtrlC::kEndsAtOnce>
int run_and_print(const CommandLine& line) {
  const bool stops = kCtrlC == CtrlC::kEndsAfterStep;
  if (!stops) release_stop_signals();
  const auto result =
      watched(line, stops ? "stopping after this step" : nullptr,
              [&](const Observer& observer) { return call(kFunction, line, observer); });
  if (!result.ok()) return tell(line, result.failure());
  kPrint(line, *result);
  if constexpr (requires { result->problem; }) {
    std::fflush(stdout);
    return tell(line, result->problem);
  }
  return 0;
}

}  // namespace mantissa::cli
