// The mantissa command.
#include <cstdio>
#include <exception>
#include <string>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "cli/text.h"

namespace {

int run(int argc, char** argv) {
  mantissa::cli::CommandLine line;
  if (const auto code = mantissa::cli::parse_command_line(argc, argv, line)) return *code;
  return mantissa::cli::run_command(line);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kFailed = static_cast<int>(mantissa::Exit::kFailed);
  int code = kFailed;
  try {
    code = run(argc, argv);
  } catch (const std::exception& error) {
    mantissa::cli::write_message(
        2, std::string("mantissa: ") + mantissa::cli::printable(error.what()) + "\n");
  }
  // A full disk or a closed pipe must not look like success.
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    mantissa::cli::write_message(2, "mantissa: cannot write to standard output\n");
    if (code == 0) code = kFailed;
  }
  return code;
}
