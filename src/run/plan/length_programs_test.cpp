// Steps on batches that are shorter than the network's sequence.
#include "infer/length_programs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "data/batches/ordered_batches.h"
#include "data/synthetic.h"
#include "data/text/text.h"
#include "infer/programs.h"
#include "models/bert.h"
#include "run/plan/run_plan.h"
#include "run/plan/steps.h"
#include "runtime/memory.h"

namespace mantissa {
namespace {

constexpr int64_t kWhole = 16, kShort = 8, kBatch = 4, kClasses = 20;
constexpr Token kLineFeed = 0;

using Settings = std::map<std::string, std::string>;

Result<RunConfig> translator(Settings more) {
  more.insert({{"model", "transformer_nmt"},
               {"width", "0.25"},
               {"sequence", std::to_string(kWhole)},
               {"batch-size", std::to_string(kBatch)},
               {"micro-batch-size", "2"},
               {"threads", "2"},
               {"buckets", "2"}});
  return make_run_config(more);
}

// Pairs of up to seven tokens, which with the line feed fit into the shorter length.
std::vector<Token> some_pairs() {
  std::vector<Token> tokens;
  for (int n = 0; n < kBatch; ++n) {
    for (int side = 0; side < 2; ++side) {
      for (int i = 0; i <= (n * 3 + side) % 7; ++i) {
        tokens.push_back(static_cast<Token>(1 + (5 * n + 3 * i + side) % (kClasses - 1)));
      }
      tokens.push_back(kLineFeed);
    }
  }
  return tokens;
}

Examples short_pairs() {
  static const std::vector<Token> tokens = some_pairs();
  return pair_examples(tokens, kWhole, kLineFeed);
}

// Texts of two to eight tokens with labels.
Examples short_texts() {
  static const ExampleSet texts = [] {
    std::vector<int16_t> tokens;
    std::vector<Label> labels;
    for (int n = 0; n < kBatch; ++n) {
      labels.push_back(static_cast<Label>(n % 3));
      for (int i = 0; i < kWhole; ++i) {
        const bool is_padding = i >= 2 + 2 * n;
        tokens.push_back(static_cast<int16_t>(is_padding ? kNoToken : (5 * n + 3 * i) % 20));
      }
    }
    return ExampleSet{kBatch,
                      {{kTokenTensor, Shape{kWhole}, std::move(tokens), 0},
                       {kLabelTensor, Shape{}, std::move(labels)}}};
  }();
  return examples_of(texts);
}

RunConfig classifier(const Settings& more) {
  Settings settings = {{"model", "mlp"}, {"optimizer", "adam"}};
  for (const char* name : {"format", "threads"}) {
    if (more.contains(name)) settings[name] = more.at(name);
  }
  settings.insert({{"batch-size", std::to_string(kBatch)}, {"micro-batch-size", "2"}});
  RunConfig config = *make_run_config(settings);
  const Graph encoder = *bert_encoder(
      "encoder", {.channels = 32, .inner = 64, .vocabulary = 20, .positions = kWhole}, kWhole);
  config.network = *text_classifier(encoder, 3);
  config.table.text.sequence = kWhole;
  config.buckets = 2;
  return config;
}

DatasetInfo texts_info() {
  return {.name = "texts",
          .specs = short_texts().specs,
          .target = {.classes = 3, .names = {"a", "b", "c"}},
          .train_count = kBatch,
          .test_count = kBatch};
}

constexpr const char* kModels[] = {"transformer_nmt", "lstm_nmt", "texts with labels"};

// A run in memory that takes steps on the same examples, in batches of the length that is asked
// for.
class Steps {
 public:
  // The index of a model in kModels.
  explicit Steps(const Settings& settings) : Steps(settings, is_of_texts(settings)) {}
  Steps(const Settings& settings, bool texts)
      : config_(texts ? classifier(settings) : *translator(settings)),
        plan_(*plan_run(config_, texts ? texts_info()
                                       : *synthetic_text_info(TextTask::kTranslation, kWhole,
                                                              kClasses, kBatch))),
        state_(std::move(*State::create(plan_.layout))),
        arena_(std::move(*AlignedMemory::create(plan_.arena_bytes()))),
        pool_(config_.threads),
        programs_(plan_.graph, state_, {pool_, arena_.span(), config_.isa}),
        examples_(texts ? short_texts() : short_pairs()) {
    initialise(plan_.graph, config_.format, 1, state_);
    programs_.add(plan_.training);
    for (const LengthProgram& each : plan_.shorter) programs_.add(each.graph, each.program);
  }

  Result<StepResult> step(int64_t length) {
    const BatchLengths lengths = {length, kWhole};
    auto batches = length == kWhole ? OrderedBatches::create(examples_, kBatch)
                                    : OrderedBatches::create_by_length(examples_, kBatch, lengths);
    StepScalars scalars = step_scalars(config_);
    scalars.learning_rate = 0.01;
    scalars.step = step_++;
    return programs_.train_step(batches->next(), scalars);
  }

  std::vector<TensorObservation> observed_step(int64_t length) {
    Observations observations(plan_.training);
    programs_.observe(&observations);
    EXPECT_TRUE(step(length).ok());
    const auto tensors = programs_.observed();
    std::vector<TensorObservation> copies(tensors.begin(), tensors.end());
    programs_.observe(nullptr);
    return copies;
  }

  std::vector<float> floats() const {
    std::vector<float> all;
    for (size_t i = 0; i < plan_.graph.parameters.size(); ++i) {
      const auto* from = state_.data<float>(plan_.layout.parameters[i].mantissa);
      all.insert(all.end(), from, from + plan_.graph.parameters[i].shape.count());
    }
    return all;
  }

  const RunPlan& plan() const { return plan_; }
  std::string hash() const { return state_.sha256(StateGroup::kPredictor); }

 private:
  static bool is_of_texts(const Settings& settings) {
    return settings.contains("model") && settings.at("model") == std::string(kModels[2]);
  }

  RunConfig config_;
  RunPlan plan_;
  State state_;
  AlignedMemory arena_;
  ThreadPool pool_;
  Programs programs_;
  Examples examples_;
  int64_t step_ = 0;
};

TEST(LengthPrograms, HaveTheStateAndTheArenaOfTheWholeLength) {
  for (const char* model : kModels) {
    for (const char* format : {"bfp8", "dfp8", "fp32", "bfp:block=channel"}) {
      const Steps run({{"model", model}, {"format", format}, {"buckets", "2"}});
      ASSERT_EQ(run.plan().shorter.size(), 1u);
      const LengthProgram& shorter = run.plan().shorter[0];
      const StateLayout layout =
          training_layout(shorter.graph, *parse_format(format), OptimizerKind::kAdam);
      const StateLayout& whole = run.plan().layout;
      ASSERT_EQ(layout.tensors.size(), whole.tensors.size());
      for (size_t i = 0; i < layout.tensors.size(); ++i) {
        // Positions have the whole table, of which the graph reads the first rows.
        EXPECT_EQ(layout.tensors[i].name, whole.tensors[i].name);
        EXPECT_EQ(layout.tensors[i].shape, whole.tensors[i].shape);
        EXPECT_EQ(layout.tensors[i].offset, whole.tensors[i].offset);
      }
      EXPECT_LT(shorter.program.arena_bytes, run.plan().training.arena_bytes);
      EXPECT_FALSE(places_of_tensors(run.plan().training, shorter.program).empty());
    }
  }
}

// The step is the one of the whole length, whose further rows are padding. In fp32 it differs by
// roundings, in integers by what padding does to exponents.
TEST(LengthPrograms, TakeTheStepOfThePaddedBatch) {
  for (const char* model : kModels) {
    for (const char* format : {"fp32", "bfp8"}) {
      Steps padded({{"model", model}, {"format", format}});
      Steps cut({{"model", model}, {"format", format}});
      const auto whole = padded.step(kWhole), part = cut.step(kShort);
      ASSERT_TRUE(whole.ok()) << whole.error().message;
      ASSERT_TRUE(part.ok()) << part.error().message;
      const bool is_float = std::string(format) == "fp32";
      EXPECT_NEAR(part->loss, whole->loss, (is_float ? 1e-5 : 0.02) * whole->loss) << model;
      EXPECT_EQ(part->losses[0].counted, whole->losses[0].counted);
      EXPECT_EQ(part->losses[0].rows, whole->losses[0].rows);
      if (!is_float) continue;
      EXPECT_EQ(part->correct, whole->correct);
      const std::vector<float> ours = cut.floats(), theirs = padded.floats();
      float worst = 0;
      for (size_t i = 0; i < ours.size(); ++i) {
        worst = std::max(worst, std::abs(ours[i] - theirs[i]));
      }
      // Adam's first step moves each weight by the rate, whatever the gradient: where that is all
      // rounding, in either direction.
      const auto moved = std::ranges::count_if(ours, [](float x) { return x != 0; });
      EXPECT_GT(moved, 0);
      EXPECT_LE(worst, 0.0201f) << model;
      int64_t different = 0;
      for (size_t i = 0; i < ours.size(); ++i) different += std::abs(ours[i] - theirs[i]) > 1e-4f;
      EXPECT_LT(different, std::ssize(ours) / 500) << model;
    }
  }
}

// Lengths follow each other in one run; threads change no bit.
TEST(LengthPrograms, ShareOneStateFromStepToStep) {
  for (const char* format : {"bfp8", "dfp8", "bfp:block=channel"}) {
    std::vector<std::string> hashes;
    for (const char* threads : {"1", "2"}) {
      Steps run({{"format", format}, {"threads", threads}});
      double first = 0, last = 0;
      for (int64_t i = 0; i < 30; ++i) {
        const auto result = run.step(i % 3 == 0 ? kWhole : kShort);
        ASSERT_TRUE(result.ok()) << result.error().message;
        (i == 0 ? first : last) = result->loss;
      }
      EXPECT_LT(last, 0.7 * first) << format;
      hashes.push_back(run.hash());
    }
    EXPECT_EQ(hashes[0], hashes[1]) << format;
  }
}

TEST(LengthPrograms, AreThereForTheLengthsOfTheSettings) {
  Steps run(Settings{});
  const auto other = run.step(12);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("'source' (I32 [16])"), std::string::npos)
      << other.error().message;
  EXPECT_TRUE(Steps(Settings{{"buckets", "1"}}).plan().shorter.empty());
}

TEST(LengthPrograms, AreForPairsOfSentencesInOneStage) {
  for (const Settings& settings :
       {Settings{{"model", "lenet5"}}, Settings{{"model", "transformer_lm"}},
        Settings{{"model", "transformer_nmt"}, {"stages", "2"}},
        Settings{{"model", "transformer_nmt"}, {"micro-batch-size", "1"}, {"replicas", "2"}}}) {
    Settings with = settings;
    with["buckets"] = "4";
    const auto config = make_run_config(with);
    ASSERT_FALSE(config.ok());
    EXPECT_EQ(config.error().message.find("buckets 4: "), 0u) << config.error().message;
  }
}

// Instruction sets may order a length's instructions in another way than the whole length's.
TEST(LengthPrograms, AreObservedInTheOrderOfTheWholeLength) {
  for (const char* isa : {"scalar", "auto"}) {
    Steps run({{"isa", isa}, {"threads", "1"}});
    const std::vector<TensorObservation> part = run.observed_step(kShort);
    const std::vector<TensorObservation> whole = run.observed_step(kWhole);
    const Program& program = run.plan().training;
    ASSERT_EQ(part.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(part[i].kind, whole[i].kind);
      EXPECT_EQ(part[i].operand, whole[i].operand);
      const bool is_of_tokens =
          whole[i].kind == ObservedKind::kValue || whole[i].kind == ObservedKind::kGradient;
      const int64_t ours = part[i].bits.elements(), theirs = whole[i].bits.elements();
      EXPECT_EQ(ours, is_of_tokens ? theirs / 2 : theirs)
          << program.instructions[whole[i].instruction].name;
    }
  }
}

// What --buckets 1 trains is what was trained before there were any.
TEST(LengthPrograms, OfOneBucketAreNoOtherRun) {
  const auto identity = [](const char* buckets) {
    return run_identity(*translator({{"buckets", buckets}}), "data");
  };
  const RunConfig one = *translator({{"buckets", "1"}});
  EXPECT_EQ(training_setting("buckets")->text(one), "");
  EXPECT_NE(identity("1"), identity("2"));
}

}  // namespace
}  // namespace mantissa
