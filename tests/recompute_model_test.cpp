// The model's memory is that of the compiled program, whatever is chosen.
#include "plan/recompute_model.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "kernels/kernel_table.h"
#include "models/models.h"
#include "plan/gradient_rows.h"
#include "plan/retention_evaluator.h"
#include "plan/value_bits.h"

namespace mantissa {
namespace {

std::vector<Retention> drawn(const RecomputeModel& model, uint64_t key, uint64_t kept_in_16) {
  std::vector<Retention> choice;
  for (size_t v = 0; v < model.values().size(); ++v) {
    const uint64_t bits = random_bits(key, RandomStream::kShuffle, 0, v);
    const bool kept = !model.values()[v].may_go || uniform_below(bits, 16) < kept_in_16;
    choice.push_back(kept            ? Retention::kKept
                     : bits % 2 == 0 ? Retention::kRecomputed
                                     : Retention::kRecomputedEachTime);
  }
  return choice;
}

TEST(RecomputeModel, PeakIsThatOfTheProgram) {
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  for (const ModelInfo& info : models()) {
    for (const char* format_text :
         {"bfp8", "fp32", "bfp:inversion=yes", "dfp:decide=pass", "dfp:g=8,gr=stochastic"}) {
      for (const auto& [micro_batches, uses_rows] : {std::pair{1, false}, {1, true}, {2, false}}) {
        const Format format = *parse_format(format_text);
        if (micro_batches > 1 && !format.decides_by_op) continue;
        const Graph graph = in_format(*build_model(info.name, ModelOptions{}), format);
        if (!check_inversion(graph, format).ok()) continue;
        ProgramOptions options{.micro_batch_size = 2,
                               .micro_batches = micro_batches,
                               .exponents = training_exponents(format),
                               .format = format};
        if (uses_rows) {
          const auto rows = row_choices(graph, options, {&table, 2}, {}, 0);
          options.by_rows = by_rows(graph, rows, rows.size());
        }
        const auto all_kept = compile(graph, options, {&table, 2});
        ASSERT_TRUE(all_kept.ok()) << all_kept.error().message;
        const RecomputeModel model(graph, *all_kept, MachineProfile{}, 2);
        const size_t values = model.values().size();
        EXPECT_EQ(model.evaluate(std::vector(values, Retention::kKept), 0).peak_bytes,
                  all_kept->live_bytes);
        for (uint64_t draw = 0; draw < 4; ++draw) {
          const auto choice = drawn(model, draw + 1, 3 + 4 * draw);
          options.retention = model.by_graph_value(choice, graph.values.size());
          const auto program = compile(graph, options, {&table, 2});
          ASSERT_TRUE(program.ok());
          const auto outcome = model.evaluate(choice, 0);
          EXPECT_EQ(outcome.peak_bytes, program->live_bytes) << info.name << " " << format_text;
          EXPECT_GE(outcome.total_bytes, model.bound_bytes()) << info.name << " " << format_text;
          int recomputations = 0;
          for (const Instruction& instruction : program->instructions) {
            recomputations += instruction.phase == Phase::kRecompute;
          }
          EXPECT_EQ(outcome.recomputations, recomputations);
        }
      }
    }
  }
}

// An evaluator notes what changes from choice to choice.
TEST(RetentionEvaluator, KeepsNothingOfTheChoicesBefore) {
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  for (const char* name : {"resnet8", "inception_small", "mobilenet_v2"}) {
    const Graph graph = *build_model(name, ModelOptions{});
    const auto program = compile(graph, {.micro_batch_size = 2}, {&table, 2});
    ASSERT_TRUE(program.ok());
    const RecomputeModel model(graph, *program, MachineProfile{}, 2, 100);
    RetentionEvaluator evaluator(model);
    for (uint64_t draw = 0; draw < 40; ++draw) {
      const auto choice = drawn(model, draw + 1, draw % 17);
      const int64_t limit = program->live_bytes * static_cast<int64_t>(1 + draw % 4) / 4;
      const auto expected = model.evaluate(choice, limit);
      EXPECT_EQ(evaluator.nanoseconds(choice), expected.nanoseconds) << name;
      const auto outcome = evaluator.outcome(limit);
      EXPECT_EQ(outcome.nanoseconds, expected.nanoseconds) << name;
      EXPECT_EQ(outcome.peak_bytes, expected.peak_bytes) << name;
      EXPECT_EQ(outcome.total_bytes, expected.total_bytes) << name;
      EXPECT_EQ(outcome.excess, expected.excess) << name;
      EXPECT_EQ(outcome.recomputations, expected.recomputations) << name;
    }
  }
}

// Planners add times in any order.
TEST(RecomputeModel, TimesAddUpExactly) {
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  const Graph graph = *build_model("resnet20", ModelOptions{});
  const auto program = compile(graph, {.micro_batch_size = 2}, {&table, 2});
  ASSERT_TRUE(program.ok());
  const RecomputeModel model(graph, *program, MachineProfile{}, 2);
  double forwards = 0, backwards = 0;
  for (size_t v = 0, n = model.values().size(); v < n; ++v) {
    forwards += model.values()[v].keep_ns + model.values()[v].compute_ns;
    backwards += model.values()[n - 1 - v].compute_ns;
    backwards += model.values()[n - 1 - v].keep_ns;
  }
  EXPECT_GT(forwards, 0);
  EXPECT_EQ(forwards, backwards);
}

}  // namespace
}  // namespace mantissa
