// Training steps of small networks under callgrind, which counts CPU instructions. On request it
// writes a dump: here after each instruction of the program, named by phase, operator and kernel.
// instruction_counts_test.sh adds them up. Without callgrind it only runs.
#include <valgrind/callgrind.h>

#include <iostream>
#include <string>
#include <vector>

#include "measure/benchmark_rows.h"
#include "tests/harness.h"

namespace mantissa::testing {
namespace {

// Few examples: callgrind is some fifty times slower than the CPU.
const HarnessOptions kRuns[] = {
    {.model = "mlp", .isa = Isa::kAvx2},
    {.model = "mlp", .format = "bfp:g=8", .optimizer = OptimizerKind::kSgd, .isa = Isa::kScalar},
    {.model = "lenet5", .isa = Isa::kAvx2},
    {.model = "lenet5", .format = "bfp:g=8", .isa = Isa::kAvx2},
    {.model = "lenet5", .format = "dfp:warmup=0", .isa = Isa::kAvx2},
    {.model = "lenet5", .format = "dfp:threshold=255", .isa = Isa::kAvx2},  // a step of the warm-up
    {.model = "resnet8", .batch_size = 4, .micro_batch_size = 4, .isa = Isa::kAvx2},
    {.model = "resnet8",
     .format = "dfp:warmup=0",
     .batch_size = 4,
     .micro_batch_size = 4,
     .isa = Isa::kAvx2},
    {.model = "resnet8",
     .format = "dfp:threshold=255",
     .batch_size = 4,
     .micro_batch_size = 4,
     .isa = Isa::kAvx2},
    {.model = "resnet8",
     .format = "bfp:g=8,gr=stochastic",
     .batch_size = 4,
     .micro_batch_size = 4,
     .isa = Isa::kAvx2},
    {.model = "mobilenet_blocks", .batch_size = 2, .micro_batch_size = 2, .isa = Isa::kAvx2},
};

std::vector<std::string> names;  // of the instructions of the network that runs
size_t readings = 0;

// The executor reads the clock before and after each instruction. A dump has the counts since the
// dump before it: counts between two instructions are named "between".
int64_t dump() {
  const std::string name = readings % 2 == 0 ? "between" : names[readings / 2];
  ++readings;
  CALLGRIND_DUMP_STATS_AT(name.c_str());
  return 0;
}

void count(const HarnessOptions& options) {
  Harness harness(options);
  const auto size = static_cast<int>(harness.program().instructions.size());
  names.clear();
  for (int i = 0; i < size; ++i) {
    const BenchmarkRow row =
        describe_instruction(harness.program(), i, harness.executor().context(i));
    names.push_back(options.model + " " + options.format + " " + row.phase + " " + row.op + " " +
                    (row.kernel.empty() ? "-" : row.kernel));
  }
  harness.train(3);  // exponents are predicted from the second step on
  readings = 0;
  std::vector<int64_t> unused(names.size());
  harness.executor().set_profile(unused, dump);
  CALLGRIND_START_INSTRUMENTATION;
  harness.step();
  CALLGRIND_STOP_INSTRUMENTATION;
}

}  // namespace
}  // namespace mantissa::testing

int main() {
  constexpr int kSkipped = 77;
  if (!mantissa::is_supported(mantissa::Isa::kAvx2)) {
    std::cerr << "this CPU has no AVX2\n";
    return kSkipped;
  }
  for (const auto& options : mantissa::testing::kRuns) mantissa::testing::count(options);
  return testing::Test::HasFailure() ? 1 : 0;
}
