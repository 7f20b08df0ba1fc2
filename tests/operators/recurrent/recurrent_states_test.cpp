// An encoder of sequences of different lengths hands its last h to a decoder: whole programs.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "ops/loss.h"
#include "ops/ops.h"
#include "tests/harness.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kSource = 6, kTarget = 4, kWords = 5, kStateChannels = 16, kSentences = 8;

// The decoder reads only positions: all that it knows of the source came through the state.
Graph translator(const Op& op, int64_t gates, bool has_cell) {
  GraphBuilder builder("translator");
  const int source = builder.add_input("source", Shape{kSource}, Element::kIndex);
  const int length = builder.add_input("source_length", Shape{}, Element::kIndex);
  const int target = builder.add_input("target", Shape{kTarget}, Element::kIndex);
  const int target_length = builder.add_input("target_length", Shape{}, Element::kIndex);
  const auto gates_of = [&](const std::string& name, int tokens, int64_t rows) {
    const int embedded = builder.add(ops::kEmbedding, name + ".embedding", {tokens},
                                     {{"rows", rows}, {"channels", kStateChannels}});
    return builder.add(ops::kLinear, name + ".input", {embedded},
                       {{"channels", gates * kStateChannels}, {"least_bits", 16}});
  };
  const int encoder = builder.add(op, "encoder", {gates_of("encoder", source, kWords), length});
  const int flat =
      builder.add(ops::kReshape, "flat", {encoder}, {{"channels", kSource * kStateChannels}});
  const int last =
      builder.add(ops::kSlice, "last", {flat},
                  {{"first", (kSource - 1) * kStateChannels}, {"channels", kStateChannels}});
  std::vector<int> inputs = {gates_of("decoder", target, kTarget), target_length, last};
  if (has_cell) {
    inputs.push_back(builder.add(ops::kLinear, "cell", {last}, {{"channels", kStateChannels}}));
  }
  const int decoder = builder.add(op, "decoder", inputs);
  const int logits = builder.add(ops::kLinear, "classifier", {decoder}, {{"channels", kWords}});
  return *ops::with_loss(*builder.finish(logits), ops::LossKind::kCrossEntropy, 0);
}

struct Choice {
  const char* format = "bfp8";
  int threads = 1;
  int micro_batches = 1;
  Isa isa = best_isa();
};

class Translation {
 public:
  Translation(const Graph& graph, const Choice& choice)
      : pool_(choice.threads), graph_(in_format(graph, *parse_format(choice.format))) {
    const Format format = *parse_format(choice.format);
    state_.emplace(
        std::move(*State::create(training_layout(graph_, format, OptimizerKind::kAdam))));
    initialise(graph_, format, 3, *state_);
    const kernels::KernelTable table = kernels::select_kernels(choice.isa);
    auto program = compile(graph_,
                           {.micro_batch_size = kSentences / choice.micro_batches,
                            .micro_batches = choice.micro_batches,
                            .optimizer = OptimizerKind::kAdam,
                            .exponents = training_exponents(format),
                            .format = format},
                           {&table, choice.threads});
    EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message);
    program_ = std::move(*program);
    const Status verified = verify(graph_, program_);
    EXPECT_TRUE(verified.ok()) << (verified.ok() ? "" : verified.error().message);
    arena_.emplace(std::move(*AlignedMemory::create(program_.arena_bytes)));
    std::memset(arena_->data(), 0xA5, static_cast<size_t>(program_.arena_bytes));
    executor_.emplace(graph_, program_, *state_, arena_->span(), pool_, choice.isa);
  }

  // The first target is the source's first token. All others are its last token before the padding.
  double train(int steps) {
    double loss = NAN;
    for (int i = 0; i < steps; ++i) {
      std::vector<int32_t> source, lengths, target, labels, target_lengths(kSentences, kTarget);
      for (int64_t n = 0; n < kSentences; ++n) {
        const auto draw = [&](int64_t k, uint64_t below) {
          const uint64_t at = static_cast<uint64_t>(n * kSource + k);
          const uint64_t bits =
              random_bits(9, RandomStream::kShuffle, static_cast<uint32_t>(steps_), at);
          return static_cast<int32_t>(uniform_below(bits, below));
        };
        lengths.push_back(1 + draw(0, kSource));
        for (int64_t k = 0; k < kSource; ++k) source.push_back(draw(k + 1000, kWords));
        const auto begin = source.end() - kSource;
        for (int32_t k = 0; k < kTarget; ++k) {
          target.push_back(k);
          labels.push_back(k == 0 ? *begin : begin[lengths.back() - 1]);
        }
      }
      const std::array<const void*, 5> inputs = {source.data(), lengths.data(), target.data(),
                                                 target_lengths.data(), labels.data()};
      const auto result = executor_->train_step(
          inputs, {.learning_rate = 0.01,
                   .gradient_scale = 1.0 / static_cast<double>(kSentences * kTarget),
                   .step = steps_++});
      EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
      loss = result.ok() ? result->loss : NAN;
    }
    return loss;
  }

  std::string sha256() const { return state_->sha256(StateGroup::kPredictor); }

 private:
  ThreadPool pool_;
  Graph graph_;
  Program program_;
  std::optional<State> state_;
  std::optional<AlignedMemory> arena_;
  std::optional<Executor> executor_;
  int64_t steps_ = 0;
};

std::vector<Graph> translators() {
  return {translator(ops::kRnn, 1, false), translator(ops::kLstm, 4, true),
          translator(ops::kGru, 3, false)};
}

TEST(RecurrentStates, CarryASequenceFromTheEncoderToTheDecoder) {
  for (const char* format : {"bfp8", "dfp8", "fp32", "bfp:block=channel"}) {
    for (const Graph& graph : translators()) {
      Translation translation(graph, {.format = format});
      EXPECT_NEAR(translation.train(1), std::log(double{kWords}), 0.5) << format;
      EXPECT_LT(translation.train(300), 0.4) << format << " " << graph.nodes.size();
    }
  }
}

TEST(RecurrentStates, HaveTheSameBitsOverThreadsInstructionSetsAndMicroBatches) {
  for (const char* format : {"bfp8", "dfp8", "bfp:g=8,gr=stochastic"}) {
    for (const Graph& graph : translators()) {
      Translation scalar(graph, {.format = format, .isa = Isa::kScalar});
      scalar.train(4);
      for (const int threads : {1, 3}) {
        Translation other(graph, {.format = format, .threads = threads});
        other.train(4);
        EXPECT_EQ(other.sha256(), scalar.sha256()) << format << " " << threads;
      }
      Translation one(graph, {.format = format, .micro_batches = 4});
      Translation three(graph, {.format = format, .threads = 3, .micro_batches = 4});
      one.train(4);
      three.train(4);
      EXPECT_EQ(one.sha256(), three.sha256()) << format;
    }
  }
}

}  // namespace
}  // namespace mantissa::testing
