// A program of version 0.1, which names the types of results as they were called then.
#include <mantissa/mantissa.h>
#include <mantissa/runs.h>

#include <cstdio>
#include <string>

int main() {
  const mantissa::SimulateOutcome simulated = mantissa::simulate({{"stages", "3"}});
  mantissa::VerifyOutcome compared;
  compared = mantissa::verify("no run", "another");
  std::string error;
  const mantissa::Info info = mantissa::info("auto", error);
  std::puts((simulated.text + compared.error + info.version).c_str());
  const bool is_right = simulated.exit == mantissa::Exit::kDone && simulated.error.empty() &&
                        !simulated.json.empty() && !compared.same &&
                        compared.exit == mantissa::Exit::kInvalidInput && error.empty();
  return is_right ? 0 : 1;
}
