// The mantissa command.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <stdexcept>

#include "cli/command_line/command_line.h"
#include "cli/command_line/command_table.h"
#include "cli/terminal/process.h"
#include "cli/terminal/terminal.h"

namespace {

constexpr const char* kNoMemory =
    "out of memory: the system gave no more (is there a limit? mantissa plan says what a run "
    "needs)";
constexpr int kFailed = static_cast<int>(mantissa::Exit::kFailed);

// A line on standard error, cut if it is very long. Allocates nothing: there may be no memory.
void complain(const char* problem, const char* reason = "") {
  std::array<char, 1000> line{};
  std::snprintf(line.data(), line.size(), "mantissa: %s%s", problem, reason);
  for (char& c : std::span(line).first(std::strlen(line.data()))) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  mantissa::cli::write_message(2, line.data());
  mantissa::cli::write_message(2, "\n");
}

std::atomic<bool> g_memory_was_refused = false;

[[noreturn]] void refuse_memory() {
  g_memory_was_refused = true;
  throw std::bad_alloc();
}

// Functions of libraries that must not throw, destructors among them, allocate. Without memory they
// end here.
[[noreturn]] void end_process() {
  if (!g_memory_was_refused) std::abort();
  complain(kNoMemory);
  std::_Exit(kFailed);
}

// Before other static objects are made, which take memory, too.
[[gnu::constructor(101)]] void prepare_for_lack_of_memory() {
  std::set_new_handler(refuse_memory);
  std::set_terminate(end_process);
}

int run(int argc, char** argv) {
  try {
    mantissa::cli::CommandLine line;
    if (const auto code = mantissa::cli::parse_command_line(argc, argv, line)) return *code;
    return mantissa::cli::command_of(line.command).run(line);
  } catch (const std::bad_alloc&) {
    complain(kNoMemory);
  } catch (const std::length_error&) {  // a size that no memory could have
    complain(kNoMemory);
  } catch (const std::exception& error) {
    complain(error.what());
  }
  return kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  mantissa::cli::prepare_process();
  const int code = run(argc, argv);
  // A full disk or a closed pipe must not look like success.
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  if (errno == 0) {
    complain("cannot write to standard output");
  } else {
    complain("cannot write to standard output: ", std::strerror(errno));
  }
  return code == 0 ? kFailed : code;
}
