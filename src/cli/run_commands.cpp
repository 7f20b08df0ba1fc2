#include "cli/run_commands.h"

#include "cli/output.h"
#include "cli/report.h"
#include "mantissa/runs.h"

namespace mantissa::cli {

int run_verify(const CommandLine& line) {
  const VerifyOutcome outcome = verify(line.paths[0], line.paths[1]);
  const int code = exit_code(line, outcome);
  if (!outcome.error.empty()) return code;
  if (line.json) {
    print(verify_json(outcome));
  } else if (!line.quiet) {
    print(verify_report(outcome, describe_terminal(1)));
  }
  return code;
}

}  // namespace mantissa::cli
