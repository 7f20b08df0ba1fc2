// The model's memory is that of the compiled program, whatever is chosen.
#include "plan/recompute_model.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "kernels/kernel_table.h"
#include "models/models.h"
#include "plan/gradient_rows.h"
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

}  // namespace
}  // namespace mantissa
