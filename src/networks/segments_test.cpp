// Packed sequences: texts that lie behind each other in a sequence do not see each other.
#include "networks/segments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "data/batches/examples.h"
#include "kernels/kernel_table.h"
#include "models/decoder.h"
#include "ops/ops.h"
#include "plan/passes/network_format.h"
#include "plan/retention/compile_training.h"
#include "runtime/executor.h"
#include "runtime/state.h"

namespace mantissa::packed_rows {
namespace {

constexpr int64_t kSequence = 24, kVocabulary = 37;
constexpr std::array<int64_t, 3> kLengths = {9, 1, 11};  // of texts; 3 positions are padding
constexpr const char* kRowFormat = "bfp:block=channel,blocks=token";

Graph decoder(DecoderLayout layout = DecoderLayout::kLlama) {
  auto graph = decoder_lm("decoder",
                          {.layout = layout,
                           .layers = 2,
                           .channels = 32,
                           .heads = 4,
                           .key_heads = 2,
                           .head_channels = 8,
                           .inner = 48,
                           .vocabulary = kVocabulary,
                           .head_norms = layout == DecoderLayout::kLlama,
                           .positions = kSequence},
                          kSequence);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return std::move(*graph);
}

Graph packed(Graph graph) {
  auto found = with_segments(std::move(graph));
  EXPECT_TRUE(found.ok()) << (found.ok() ? "" : found.error().message);
  return std::move(*found);
}

// Sequences of tokens, labels and starts.
struct Rows {
  std::vector<int32_t> tokens, labels, starts;

  explicit Rows(int64_t sequences)
      : tokens(static_cast<size_t>(sequences * kSequence), 0),
        labels(tokens.size(), kIgnoredLabel),
        starts(tokens.size(), 0) {}

  // Writes text `number` from a position on.
  void put(size_t number, int64_t sequence, int64_t at) {
    for (int64_t i = 0; i < kLengths[number]; ++i) {
      const auto bits = random_bits(5, RandomStream::kShuffle, static_cast<uint32_t>(number), i);
      const auto place = static_cast<size_t>(sequence * kSequence + at + i);
      tokens[place] = static_cast<int32_t>(bits % kVocabulary);
      labels[place] = i % 3 == 1 ? kIgnoredLabel : static_cast<int32_t>(bits / 64 % kVocabulary);
      starts[place] = static_cast<int32_t>(at);
    }
  }
  int64_t label_count() const {
    return std::count_if(labels.begin(), labels.end(), [](int32_t label) { return label >= 0; });
  }
};

Rows one_packed_row() {
  Rows rows(1);
  int64_t at = 0;
  for (size_t i = 0; i < kLengths.size(); ++i) {
    rows.put(i, 0, at);
    at += kLengths[i];
  }
  std::fill(rows.starts.begin() + at, rows.starts.end(), static_cast<int32_t>(at));
  return rows;
}

Rows separate_rows() {
  Rows rows(std::ssize(kLengths));
  for (size_t i = 0; i < kLengths.size(); ++i) rows.put(i, static_cast<int64_t>(i), 0);
  return rows;
}

struct RunOptions {
  const char* format = kRowFormat;
  int threads = 1;
  Isa isa = best_isa();
  RecomputeMode recompute = RecomputeMode::kNone;
};

// A network with its state and one program.
class DecoderRun {
 public:
  DecoderRun(const Graph& network, int64_t sequences, bool trains, const RunOptions& options)
      : pool_(options.threads), format_(*parse_format(options.format)) {
    graph_ = in_format(network, format_);
    state_.emplace(std::move(*State::create(training_layout(graph_, format_, OptimizerKind::kSgd))));
    initialise(graph_, format_, 3, *state_);
    const kernels::KernelTable table = kernels::select_kernels(options.isa);
    const PlanningContext planning{&table, options.threads};
    if (trains) {
      auto found = compile_training(graph_,
                                    {.micro_batch_size = sequences,
                                     .optimizer = OptimizerKind::kSgd,
                                     .exponents = training_exponents(format_),
                                     .format = format_},
                                    planning, {.mode = options.recompute});
      EXPECT_TRUE(found.ok()) << (found.ok() ? "" : found.error().message);
      program_ = std::move(found->program);
    } else {
      program_ = std::move(*compile(graph_,
                                    {.kind = ProgramKind::kInference,
                                     .micro_batch_size = sequences,
                                     .with_loss = false,
                                     .exponents = ExponentMode::kCalibrate,
                                     .format = format_},
                                    planning));
    }
    arena_.emplace(std::move(*AlignedMemory::create(program_.arena_bytes)));
    std::memset(arena_->data(), 0xA5, static_cast<size_t>(program_.arena_bytes));
    executor_.emplace(graph_, program_, *state_, arena_->span(), pool_, options.isa);
  }

  // The logits of a position.
  std::vector<double> logits(int64_t row) const {
    const Tensor all = executor_->output(0);
    std::vector<double> list;
    for (int64_t i = row * kVocabulary; i < (row + 1) * kVocabulary; ++i) {
      const bool is_float = all.type == DataType::kFloat;
      list.push_back(is_float ? double{all.as<float>()[i]}
                              : std::ldexp(all.as<int32_t>()[i], all.row_exponent(row)));
    }
    return list;
  }

  void infer(const Rows& rows) {
    const auto result = executor_->infer(batch(rows));
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  }
  void train(const Rows& rows, int steps, double rate) {
    for (int64_t step = 0; step < steps; ++step) {
      const auto result = executor_->train_step(
          batch(rows), {.learning_rate = rate,
                        .gradient_scale = 1.0 / static_cast<double>(rows.label_count()),
                        .step = step});
      EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    }
  }
  std::vector<double> weights() const {
    std::vector<double> all;
    for (int i = 0; i < std::ssize(graph_.parameters); ++i) {
      const std::vector<double> own = parameter_numbers(*state_, i);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
  std::string sha256() const { return state_->sha256(StateGroup::kPredictor); }

 private:
  // The tensors in the order of the network's inputs.
  std::vector<const void*> batch(const Rows& rows) const {
    std::vector<const void*> tensors;
    for (const int input : graph_.inputs) {
      const std::string& name = graph_.values[input].name;
      tensors.push_back(name == kTokenTensor   ? rows.tokens.data()
                        : name == kLabelTensor ? rows.labels.data()
                                               : rows.starts.data());
    }
    return tensors;
  }

  ThreadPool pool_;
  Format format_;
  Graph graph_;
  Program program_;
  std::optional<State> state_;
  std::optional<AlignedMemory> arena_;
  std::optional<Executor> executor_;
};

TEST(Packed, LogitsAreThoseOfSeparateRows) {
  for (const char* format : {kRowFormat, "fp32"}) {
    const RunOptions options{.format = format};
    const Rows rows = one_packed_row();
    DecoderRun together(packed(decoder()), 1, false, options), blind(decoder(), 1, false, options),
        apart(decoder(), std::ssize(kLengths), false, options);
    together.infer(rows);
    blind.infer(rows);
    apart.infer(separate_rows());
    int64_t at = 0;
    for (size_t i = 0; i < kLengths.size(); ++i) {
      for (int64_t k = 0; k < kLengths[i]; ++k, ++at) {
        const auto wanted = apart.logits(static_cast<int64_t>(i) * kSequence + k);
        EXPECT_EQ(together.logits(at), wanted) << format << " text " << i << " position " << k;
        // Without starts later texts see the earlier ones.
        EXPECT_TRUE(i == 0 || blind.logits(at) != wanted) << format << " " << i << " " << k;
      }
    }
  }
}

// How far a step of training leads, and how far two such steps lie apart.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

TEST(Packed, GradientsAreThoseOfSeparateRows) {
  const std::pair<const char*, double> kFormats[] = {
      {"fp32", 1e-5}, {kRowFormat, 0.02}, {"bfp:a=16,block=channel,blocks=token", 0.02}};
  for (const auto& [format, tolerance] : kFormats) {
    const RunOptions options{.format = format};
    DecoderRun together(packed(decoder()), 1, true, options), blind(decoder(), 1, true, options),
        apart(decoder(), std::ssize(kLengths), true, options);
    const std::vector<double> start = apart.weights();
    together.train(one_packed_row(), 1, 1);
    blind.train(one_packed_row(), 1, 1);
    apart.train(separate_rows(), 1, 1);
    const double step = distance(apart.weights(), start);
    EXPECT_GT(step, 0) << format;
    EXPECT_LT(distance(together.weights(), apart.weights()), tolerance * step) << format;
    EXPECT_GT(distance(blind.weights(), apart.weights()), 5 * tolerance * step) << format;
  }
}

TEST(Packed, SameBitsOverThreadsInstructionSetsAndRecomputation) {
  for (const char* format : {kRowFormat, "bfp8", "dfp:warmup=2"}) {
    DecoderRun one(packed(decoder()), 1, true, {.format = format, .isa = Isa::kScalar});
    one.train(one_packed_row(), 4, 0.1);
    for (const RunOptions& options :
         {RunOptions{.format = format, .threads = 3},
          RunOptions{.format = format, .recompute = RecomputeMode::kAll}}) {
      DecoderRun other(packed(decoder()), 1, true, options);
      other.train(one_packed_row(), 4, 0.1);
      EXPECT_EQ(other.sha256(), one.sha256()) << format << " " << options.threads;
    }
  }
}

TEST(Packed, NetworksWithoutStartsAreAsBefore) {
  const Graph before = decoder(), after = without_segments(packed(decoder()));
  EXPECT_EQ(before.inputs, after.inputs);
  for (size_t n = 0; n < before.nodes.size(); ++n) {
    EXPECT_EQ(before.nodes[n].inputs, after.nodes[n].inputs) << before.nodes[n].name;
  }
}

TEST(Packed, AttentionAcrossSequencesIsRefusedByName) {
  Graph across = decoder();
  for (Node& node : across.nodes) {
    if (node.op == &ops::kAttention) {
      replace_op(node, ops::kAttention,
                 {{"heads", int64_t{4}}, {"kv_heads", int64_t{2}}, {"cross", int64_t{1}}});
    }
  }
  ASSERT_TRUE(verify(across).ok());
  const auto refused = with_segments(std::move(across));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("has no segments across two sequences"), std::string::npos)
      << refused.error().message;
}

TEST(Packed, OtherPositionsAreRefusedByName) {
  const auto refused = with_segments(decoder(DecoderLayout::kGpt2));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("counts positions from the beginning"), std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace mantissa::packed_rows
