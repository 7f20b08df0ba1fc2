// The programs of all networks are on record: the order of the instructions and the arena. A change
// of the compiler must not alter them without a reason.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/hash.h"
#include "plan/retention/compile_training.h"
#include "tests/harness.h"

namespace mantissa::testing {
namespace {

struct RecordedProgram {
  const char* model;
  const char* format;
  const char* memory;  // "all": everything is kept, "60": at most 60 % of that arena
  int64_t arena_bytes;
  int instructions;
  const char* sha256;  // of their order, its first 16 digits
};

constexpr RecordedProgram kRecorded[] = {
#include "tests/planning/programs.inc"
};

std::string order_of(const Program& program) {
  Sha256 hash;
  for (const Instruction& instruction : program.instructions) {
    hash.update(std::string(phase_name(instruction)) + " " + instruction.op->name + " " +
                instruction.name + "\n");
  }
  return hash.hex_digest().substr(0, 16);
}

// Kernels and threads that every machine has, since scratch depends on both.
Program compiled(const char* model, const char* format, const RecomputeOptions& recompute) {
  const kernels::KernelTable kernels = kernels::select_kernels(Isa::kScalar);
  const Format parsed = *parse_format(format);
  const Graph graph = in_format(*build_model(model, {}), parsed);
  auto training = compile_training(
      graph, {.micro_batch_size = 32, .exponents = training_exponents(parsed), .format = parsed},
      {&kernels, 2}, recompute);
  EXPECT_TRUE(training.ok()) << model << " " << format;
  EXPECT_TRUE(verify(graph, training->program).ok()) << model << " " << format;
  return training->program;
}

// The scratch of fp32 is oneDNN's, which depends on the CPU.
bool has_scratch_of_its_cpu(const char* format) { return std::string(format) == "fp32"; }

void expect_recorded(const char* model, const char* format, const char* memory,
                     const Program& program) {
  for (const RecordedProgram& recorded : kRecorded) {
    if (std::string(model) != recorded.model || std::string(format) != recorded.format ||
        std::string(memory) != recorded.memory) {
      continue;
    }
    if (!has_scratch_of_its_cpu(format)) {
      EXPECT_EQ(program.arena_bytes, recorded.arena_bytes)
          << model << " " << format << " " << memory;
    }
    EXPECT_EQ(program.instructions.size(), recorded.instructions)
        << model << " " << format << " " << memory;
    EXPECT_EQ(order_of(program), recorded.sha256) << model << " " << format << " " << memory;
    return;
  }
  ADD_FAILURE() << "not on record:\n{\"" << model << "\", \"" << format << "\", \"" << memory
                << "\", " << program.arena_bytes << ", " << program.instructions.size() << ", \""
                << order_of(program) << "\"},";
}

class ProgramBytes : public ::testing::TestWithParam<std::string> {};

TEST_P(ProgramBytes, AreThoseOnRecord) {
  const char* name = GetParam().c_str();
  for (const char* format : {"bfp8", "bfp:g=8", "bfp8-text", "dfp8", "fp32"}) {
    const Program all = compiled(name, format, {.mode = RecomputeMode::kNone});
    expect_recorded(name, format, "all", all);
    if (has_scratch_of_its_cpu(format)) continue;  // and so do the values that fit in a limit
    const int64_t limit = all.arena_bytes * 60 / 100;
    expect_recorded(name, format, "60",
                    compiled(name, format, {.mode = RecomputeMode::kAuto, .limit_bytes = limit}));
  }
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelInfo& model : models()) names.emplace_back(model.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, ProgramBytes, ::testing::ValuesIn(model_names()),
                         [](const auto& model) { return model.param; });

}  // namespace
}  // namespace mantissa::testing
