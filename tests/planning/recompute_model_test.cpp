// The memory of the model equals the memory of the compiled program, for any choice.
#include "plan/retention/recompute_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/kernel_table.h"
#include "models/models.h"
#include "ops/ops.h"
#include "plan/passes/network_format.h"
#include "plan/retention/gradient_rows.h"
#include "plan/retention/retention.h"
#include "plan/retention/retention_evaluator.h"
#include "tests/harness.h"

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
            recomputations += instruction.again;
          }
          EXPECT_EQ(outcome.recomputations, recomputations);
        }
      }
    }
  }
}

// A step under a choice, replayed in the plainest way.
RecomputeModel::Outcome replayed(const RecomputeModel& model, const std::vector<Retention>& choice,
                                 int64_t limit) {
  struct Stay {
    int64_t bytes;
    int first, last;  // moments
  };
  constexpr int kGone = -1;
  const auto& values = model.values();
  RecomputeModel::Outcome outcome;
  std::vector<int64_t> rest;  // by moment
  std::vector<Stay> stays;    // of values in memory; the first ones as the forward pass writes them
  std::vector<int> stay_of;
  for (size_t v = 0; v < values.size(); ++v) {
    stays.push_back({values[v].bytes, values[v].forward, values[v].last_forward});
    stay_of.push_back(choice[v] == Retention::kKept ? static_cast<int>(v) : kGone);
  }
  int next = 0;
  const auto moment = [&] { return static_cast<int>(rest.size()); };
  const auto touch = [&](int v) { stays[stay_of[v]].last = moment(); };
  const auto run_to = [&](int instruction) {
    for (; next < instruction; ++next) rest.push_back(model.bytes_during()[next]);
  };
  std::set<int> missing, passing;
  const std::function<void(int)> find_missing = [&](int v) {
    if (stay_of[v] != kGone || !missing.insert(v).second) return;
    for (const int input : values[v].inputs) find_missing(input);
  };
  for (const RecomputeModel::Read& read : model.reads()) {
    run_to(read.instruction);
    missing.clear();
    for (const int v : read.values) find_missing(v);
    for (const int v : missing) {
      for (const int input : values[v].inputs) touch(input);
      stay_of[v] = static_cast<int>(stays.size());
      stays.push_back({values[v].bytes, moment(), moment()});
      rest.push_back(model.bytes_before()[read.instruction] + values[v].transient_bytes);
      outcome.nanoseconds += values[v].compute_ns;
      ++outcome.recomputations;
      if (choice[v] == Retention::kRecomputedEachTime) passing.insert(v);
    }
    for (const int v : read.values) touch(v);
    if (!read.ends_node) continue;
    for (const int v : passing) stay_of[v] = kGone;
    passing.clear();
  }
  run_to(static_cast<int>(model.bytes_during().size()));
  for (size_t v = 0; v < values.size(); ++v) {
    if (choice[v] != Retention::kKept || stays[v].last < model.first_backward()) continue;
    outcome.nanoseconds += values[v].keep_ns;
  }
  const int64_t overhead = outcome.recomputations * model.instruction_bytes();
  for (int m = 0; m < moment(); ++m) {
    int64_t live = rest[m];
    for (const Stay& stay : stays) live += stay.first <= m && m <= stay.last ? stay.bytes : 0;
    outcome.peak_bytes = std::max(outcome.peak_bytes, live);
    outcome.excess += std::max<int64_t>(0, live + overhead - limit);
  }
  outcome.total_bytes = outcome.peak_bytes + overhead;
  return outcome;
}

void expect_equal(const RecomputeModel::Outcome& found, const RecomputeModel::Outcome& expected) {
  EXPECT_EQ(found.nanoseconds, expected.nanoseconds);
  EXPECT_EQ(found.peak_bytes, expected.peak_bytes);
  EXPECT_EQ(found.total_bytes, expected.total_bytes);
  EXPECT_EQ(found.excess, expected.excess);
  EXPECT_EQ(found.recomputations, expected.recomputations);
}

// Choices one after the other: quite different ones, or changed in a few values from a choice that
// was taken.
TEST(RetentionEvaluator, FindsWhatAPlainReplayFinds) {
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  for (const char* name : {"resnet8", "inception_small", "mobilenet_v2", "vgg16_bn"}) {
    for (const char* format_text : {"bfp8", "dfp:decide=pass", "bfp:a=4,unsigned=yes,linear=8"}) {
      SCOPED_TRACE(std::string(name) + " " + format_text);
      const Format format = *parse_format(format_text);
      const Graph graph = in_format(*build_model(name, ModelOptions{}), format);
      const auto program = compile(
          graph, {.micro_batch_size = 2, .exponents = training_exponents(format), .format = format},
          {&table, 2});
      ASSERT_TRUE(program.ok());
      const RecomputeModel model(graph, *program, MachineProfile{}, 2, 100);
      EXPECT_GT(model.bound_bytes(), 0);
      RetentionEvaluator evaluator(model);
      for (uint64_t draw = 0; draw < 24; ++draw) {
        auto choice = drawn(model, draw + 1, draw % 17);
        const int64_t limit = program->live_bytes * static_cast<int64_t>(1 + draw % 4) / 4;
        for (size_t v = draw, changes = 0; changes < 4; v = (v + 7) % choice.size(), ++changes) {
          if (model.values()[v].may_go) choice[v] = static_cast<Retention>((draw + changes) % 3);
          const auto expected = replayed(model, choice, limit);
          EXPECT_EQ(evaluator.nanoseconds(choice), expected.nanoseconds);
          expect_equal(evaluator.outcome(limit), expected);
          const auto up_to = [&](int64_t bound) {
            return evaluator.outcome_if(limit, [&](int64_t excess) { return excess <= bound; });
          };
          const auto found = up_to(expected.excess);
          ASSERT_TRUE(found);
          expect_equal(*found, expected);
          if (expected.excess > 0) {
            EXPECT_FALSE(up_to(expected.excess - 1));
          }
          if (changes % 3 == draw % 3) {
            evaluator.set_base();
            auto other = choice;
            other[v] = static_cast<Retention>((draw + changes + 1) % 3);
            const auto expected_other = replayed(model, other, limit);
            EXPECT_EQ(evaluator.nanoseconds_with(static_cast<int>(v), other[v]),
                      expected_other.nanoseconds);
            expect_equal(evaluator.outcome(limit), expected_other);
          }
          expect_equal(model.evaluate(choice, limit), expected);
          EXPECT_GE(expected.total_bytes, model.bound_bytes());
        }
      }
    }
  }
}

// Changes of one value, each taken as the base, of a chain of values that two nodes read whose
// results are added.
int64_t words_of_changes(int diamonds) {
  GraphBuilder builder("diamonds", Shape{28, 28, 1});
  int value = builder.add(ops::kNormaliseInput, "normalise", {builder.input()});
  value = builder.add(ops::kConvolution, "stem", {value}, {{"channels", 8}, {"padding", 1}});
  for (int i = 0; i < diamonds; ++i) {
    const std::string number = std::to_string(i);
    const int left = builder.add(ops::kRelu, "left" + number, {value});
    const int right = builder.add(ops::kMaxPool, "right" + number, {value}, {{"window", 1}});
    value = builder.add(ops::kAdd, "sum" + number, {left, right});
  }
  value = builder.add(ops::kGlobalAveragePool, "average", {value});
  value = builder.add(ops::kLinear, "classifier", {value}, {{"channels", 10}});
  const Format format = *parse_format("bfp8");
  const Graph graph = in_format(testing::with_loss(*builder.finish(value)), format);
  const kernels::KernelTable table = kernels::select_kernels(Isa::kScalar);
  const auto program = compile(
      graph, {.micro_batch_size = 2, .exponents = training_exponents(format), .format = format},
      {&table, 2});
  EXPECT_TRUE(program.ok());
  const RecomputeModel model(graph, *program, MachineProfile{}, 2);
  RetentionEvaluator evaluator(model);
  std::vector<Retention> choice = keep_all(model);
  evaluator.nanoseconds(choice);
  evaluator.set_base();
  const int64_t before = evaluator.compared_words();
  for (int i = 0; i < 40; ++i) {
    const int v = static_cast<int>(choice.size()) / 2 + i;
    if (!model.values()[v].may_go) continue;
    choice[v] = Retention::kRecomputed;
    EXPECT_EQ(evaluator.nanoseconds_with(v, choice[v]),
              model.evaluate(choice, program->live_bytes).nanoseconds);
    evaluator.set_base();
  }
  return evaluator.compared_words() - before;
}

// The sets of a network that is ten times as long have ten times as many words, at ten times as
// many instructions. Changes are compared in no more words at each.
TEST(RetentionEvaluator, ComparesOnlyWordsThatMayDiffer) {
  const int64_t words = words_of_changes(100);
  EXPECT_GT(words, 0);
  EXPECT_LE(words_of_changes(1000), 12 * words);
}

// Whole numbers have the same sum in any order. Planners add times in any order.
TEST(RecomputeModel, TimesAreWholeNanoseconds) {
  const kernels::KernelTable table = kernels::select_kernels(best_isa());
  const Graph graph = *build_model("resnet20", ModelOptions{});
  const auto program = compile(graph, {.micro_batch_size = 2}, {&table, 2});
  ASSERT_TRUE(program.ok());
  const RecomputeModel model(graph, *program, MachineProfile{}, 2);
  for (const RecomputeModel::Value& value : model.values()) {
    EXPECT_EQ(value.keep_ns, std::floor(value.keep_ns));
    EXPECT_EQ(value.compute_ns, std::floor(value.compute_ns));
    EXPECT_GT(value.compute_ns, 0);
  }
}

}  // namespace
}  // namespace mantissa
