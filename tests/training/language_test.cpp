// Language models learn, with the same bits on any threads and instruction set. Nothing looks
// ahead, and padding is not seen.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>

#include "models/models.h"
#include "tests/harness.h"
#include "tests/operators/single_op.h"

namespace mantissa::testing {
namespace {

constexpr int64_t kSequence = 24;
constexpr int64_t kVocabulary = 11;

Graph language_model(bool tied = false, const char* model = "transformer_lm") {
  auto graph = build_model(
      model,
      {.classes = kVocabulary, .width_multiplier = 0.5, .sequence = kSequence, .tied = tied});
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
  return std::move(*graph);
}

struct TextHarnessOptions {
  const char* format = "bfp8";
  int threads = 1;
  int micro_batches = 1;
  Isa isa = best_isa();
  bool tied = false;
  const char* model = "transformer_lm";
};

// Trains a language model on a language of two rules: a token and the one before it determine the
// next one.
class TextHarness {
 public:
  static constexpr int64_t kBatch = 8;

  explicit TextHarness(const TextHarnessOptions& options) : pool_(options.threads) {
    const Format format = *parse_format(options.format);
    graph_ = in_format(language_model(options.tied, options.model), format);
    state_.emplace(
        std::move(*State::create(training_layout(graph_, format, OptimizerKind::kAdam))));
    initialise(graph_, format, 3, *state_);
    const kernels::KernelTable table = kernels::select_kernels(options.isa);
    auto program = compile(graph_,
                           {.micro_batch_size = kBatch / options.micro_batches,
                            .micro_batches = options.micro_batches,
                            .optimizer = OptimizerKind::kAdam,
                            .exponents = training_exponents(format),
                            .format = format},
                           {&table, options.threads});
    EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().message);
    program_ = std::move(*program);
    const Status verified = verify(graph_, program_);
    EXPECT_TRUE(verified.ok()) << (verified.ok() ? "" : verified.error().message);
    arena_.emplace(std::move(*AlignedMemory::create(program_.arena_bytes)));
    std::memset(arena_->data(), 0xA5, static_cast<size_t>(program_.arena_bytes));
    executor_.emplace(graph_, program_, *state_, arena_->span(), pool_, options.isa);
  }

  double step() {
    std::vector<int32_t> tokens(kBatch * kSequence), labels(kBatch * kSequence);
    for (int64_t n = 0; n < kBatch; ++n) {
      const uint64_t bits =
          random_bits(9, RandomStream::kShuffle, static_cast<uint32_t>(steps_), n);
      int64_t before = static_cast<int64_t>(bits % kVocabulary), token = before * 3 % kVocabulary;
      for (int64_t i = 0; i < kSequence; ++i) {
        const int64_t next = (token * 4 + before * 2 + 1) % kVocabulary;
        tokens[n * kSequence + i] = static_cast<int32_t>(token);
        labels[n * kSequence + i] = static_cast<int32_t>(next);
        before = token;
        token = next;
      }
    }
    const auto result =
        executor_->train_step(std::array<const void*, 2>{tokens.data(), labels.data()},
                              {.learning_rate = 0.003,
                               .gradient_scale = 1.0 / static_cast<double>(kBatch * kSequence),
                               .step = steps_++});
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return result.ok() ? result->loss : NAN;
  }

  double train(int steps) {
    double loss = 0;
    for (int i = 0; i < steps; ++i) loss = step();
    return loss;
  }

  std::string sha256() const { return state_->sha256(StateGroup::kPredictor); }
  std::string weights_sha256() const { return state_->sha256(StateGroup::kStatistics); }

 private:
  ThreadPool pool_;
  Graph graph_;
  Program program_;
  std::optional<State> state_;
  std::optional<AlignedMemory> arena_;
  std::optional<Executor> executor_;
  int64_t steps_ = 0;
};

constexpr const char* kRowFormat = "bfp:block=channel,blocks=token";

TEST(LanguageModel, LearnsInEachFormat) {
  for (const char* format : {"bfp8", "dfp8", "fp32", "bfp:block=channel", kRowFormat}) {
    TextHarness harness({.format = format, .threads = 2});
    EXPECT_NEAR(harness.step(), std::log(double{kVocabulary}), 0.5) << format;
    EXPECT_LT(harness.train(200), 0.3) << format;
  }
}

TEST(LanguageModel, RecurrentOnesLearnInEachFormat) {
  for (const char* model : {"lstm_lm", "gru_lm"}) {
    for (const char* format : {"bfp8", "dfp8", "fp32", "bfp:block=channel"}) {
      TextHarness harness({.format = format, .threads = 2, .model = model});
      EXPECT_NEAR(harness.step(), std::log(double{kVocabulary}), 0.5) << model << " " << format;
      EXPECT_LT(harness.train(250), 0.5) << model << " " << format;
    }
  }
}

TEST(LanguageModel, RecurrentOnesHaveTheSameBitsOverThreadsInstructionSetsAndMicroBatches) {
  for (const char* model : {"lstm_lm", "gru_lm"}) {
    for (const char* format : {"bfp8", "dfp8", "bfp:g=8,gr=stochastic", "bfp:block=channel"}) {
      TextHarness scalar({.format = format, .isa = Isa::kScalar, .model = model});
      scalar.train(4);
      for (const int threads : {1, 3}) {
        TextHarness harness({.format = format, .threads = threads, .model = model});
        harness.train(4);
        EXPECT_EQ(harness.sha256(), scalar.sha256()) << model << " " << format << " " << threads;
      }
    }
    TextHarness one({.threads = 1, .micro_batches = 4, .model = model});
    TextHarness three({.threads = 3, .micro_batches = 4, .model = model});
    one.train(4);
    three.train(4);
    EXPECT_EQ(one.sha256(), three.sha256()) << model;
  }
}

TEST(LanguageModel, SharesTheEmbeddingWithTheClassifier) {
  for (const char* format : {"bfp8", "fp32"}) {
    TextHarness harness({.format = format, .threads = 2, .tied = true});
    harness.step();
    EXPECT_LT(harness.train(200), 0.5) << format;
  }
}

TEST(LanguageModel, SameBitsOverThreadsAndInstructionSets) {
  for (const char* format : {"bfp8", "dfp:warmup=2", "bfp:g=8,gr=stochastic", "bfp:a=12",
                             "bfp:g=8,gw=32", kRowFormat, "bfp:a=12,blocks=token"}) {
    TextHarness scalar({.format = format, .isa = Isa::kScalar});
    scalar.train(4);
    for (const int threads : {1, 3}) {
      TextHarness harness({.format = format, .threads = threads});
      harness.train(4);
      EXPECT_EQ(harness.sha256(), scalar.sha256()) << format << ", " << threads << " threads";
    }
  }
}

TEST(LanguageModel, SameBitsOfMicroBatchesOverThreads) {
  for (const char* format : {"bfp8", kRowFormat}) {
    TextHarness one({.format = format, .micro_batches = 2});
    TextHarness two({.format = format, .threads = 2, .micro_batches = 2});
    one.train(4);
    two.train(4);
    EXPECT_EQ(one.sha256(), two.sha256()) << format;
  }
}

// bert_tiny, trained to find every third token of sequences that count in steps of two sizes.
class MaskedHarness {
 public:
  static constexpr int64_t kBatch = 8;

  explicit MaskedHarness(const char* format, int threads = 1, Isa isa = best_isa())
      : pool_(threads) {
    const Format parsed = *parse_format(format);
    auto graph = build_model("bert_tiny", {.classes = kVocabulary + 1,
                                           .width_multiplier = 0.25,
                                           .sequence = kSequence,
                                           .tied = true});
    EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message);
    graph_ = in_format(*graph, parsed);
    state_.emplace(
        std::move(*State::create(training_layout(graph_, parsed, OptimizerKind::kAdam))));
    initialise(graph_, parsed, 3, *state_);
    const kernels::KernelTable table = kernels::select_kernels(isa);
    program_ = std::move(*compile(graph_,
                                  {.micro_batch_size = kBatch,
                                   .optimizer = OptimizerKind::kAdam,
                                   .exponents = training_exponents(parsed),
                                   .format = parsed},
                                  {&table, threads}));
    arena_.emplace(std::move(*AlignedMemory::create(program_.arena_bytes)));
    std::memset(arena_->data(), 0xA5, static_cast<size_t>(program_.arena_bytes));
    executor_.emplace(graph_, program_, *state_, arena_->span(), pool_, isa);
  }

  // The mean loss of the masked tokens.
  double train(int steps) {
    double loss = 0;
    for (int i = 0; i < steps; ++i) loss = step();
    return loss;
  }
  std::string sha256() const { return state_->sha256(StateGroup::kPredictor); }

 private:
  double step() {
    std::vector<int32_t> tokens(kBatch * kSequence), segments(tokens.size(), 0),
        labels(tokens.size(), -1), lengths(kBatch, kSequence);
    int64_t counted = 0;
    for (int64_t n = 0; n < kBatch; ++n) {
      const uint64_t bits =
          random_bits(9, RandomStream::kShuffle, static_cast<uint32_t>(steps_), n);
      for (int64_t i = 0; i < kSequence; ++i) {
        const int64_t at = n * kSequence + i;
        const auto stride = static_cast<int64_t>(2 + bits / 16 % 2);
        tokens[at] =
            static_cast<int32_t>((static_cast<int64_t>(bits % 16) + i * stride) % kVocabulary);
        if ((i + n) % 3 != 0) continue;
        labels[at] = tokens[at];
        tokens[at] = kVocabulary;
        ++counted;
      }
    }
    const auto result = executor_->train_step(
        std::array<const void*, 4>{tokens.data(), segments.data(), lengths.data(), labels.data()},
        {.learning_rate = 0.003,
         .gradient_scale = 1.0 / static_cast<double>(counted),
         .step = steps_++});
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return result.ok() ? result->loss : NAN;
  }

  ThreadPool pool_;
  Graph graph_;
  Program program_;
  std::optional<State> state_;
  std::optional<AlignedMemory> arena_;
  std::optional<Executor> executor_;
  int64_t steps_ = 0;
};

TEST(MaskedModel, LearnsInEachFormat) {
  for (const char* format : {"bfp8", "dfp8", "fp32", "bfp:block=channel", kRowFormat}) {
    MaskedHarness harness(format, 2);
    EXPECT_NEAR(harness.train(1), std::log(double{kVocabulary + 1}), 0.8) << format;
    EXPECT_LT(harness.train(250), 1) << format;
  }
}

TEST(MaskedModel, SameBitsOverThreadsAndInstructionSets) {
  for (const char* format : {"bfp8", "dfp:warmup=2", kRowFormat}) {
    MaskedHarness scalar(format, 1, Isa::kScalar), threads(format, 3);
    scalar.train(4);
    threads.train(4);
    EXPECT_EQ(threads.sha256(), scalar.sha256()) << format;
  }
}

TEST(MaskedModel, HasItsDigests) {
  MaskedHarness block("bfp8"), dynamic("dfp8"), rows(kRowFormat);
  block.train(20);
  dynamic.train(20);
  rows.train(20);
  EXPECT_EQ(rows.sha256(), "0ae1f1cf3714807a4306d2b3783d0c54c0af6f20cfdee9a38a37c44768266224");
  EXPECT_EQ(block.sha256(), "fbfa2f89af24532a98495f152d310ddf9e82617d494d0cae7188758c8e7a6b20");
  EXPECT_EQ(dynamic.sha256(), "a96c8ae1ee6881c37330f8fb7eed73052125133db0138f6fbeb2fa56e5d5400b");
}

// A change that alters the bits of language models must change these digests.
TEST(LanguageModel, HasItsDigests) {
  TextHarness block({.format = "bfp8"}), dynamic({.format = "dfp8"}), rows({.format = kRowFormat});
  block.train(20);
  dynamic.train(20);
  rows.train(20);
  EXPECT_EQ(rows.sha256(), "d6776e35c89b07015e31f36092f385e6e8273420f54adfe8e327e0c0b0b3f872");
  EXPECT_EQ(block.sha256(), "09151d94578b187e5217d13d77713fdaf3720ae5c30acc8bca908da9adb2ecd3");
  EXPECT_EQ(dynamic.sha256(), "086d890e25c5536a3b143524c3cfea18ee121fcce2a6a405279710d4958111f8");
}

TEST(LanguageModel, RecurrentOnesHaveTheirDigests) {
  const auto digest = [](const char* model, const char* format) {
    TextHarness harness({.format = format, .model = model});
    harness.train(20);
    return harness.sha256();
  };
  EXPECT_EQ(digest("lstm_lm", "bfp8"),
            "3466e9c23e1fe08596ff4621c4b379be2ceb114555c08bd84c72fefb69ca5a1b");
  EXPECT_EQ(digest("lstm_lm", "dfp8"),
            "1b635f218a80bfbbb2c544ec3db5a16bb5636887d2b204b08060e898af6fbeb8");
  EXPECT_EQ(digest("lstm_lm", "bfp:g=8,gr=stochastic"),
            "6137fd36d4f87720a1fd6802cfac7f5333267f2c01bb4fc567b5f838f63f2f2a");
  EXPECT_EQ(digest("gru_lm", "bfp8"),
            "1016e5c1c88c10a3ad15dfb167833ec6c65d782376448ad5a6a62f905325acaa");
  EXPECT_EQ(digest("gru_lm", "dfp8"),
            "133066ed3fa6f70fdff709da1417c453546f8eda9efe6d7fad15ea3bf9748620");
  EXPECT_EQ(digest("gru_lm", "bfp:g=8,gr=stochastic"),
            "181f56c7581e9aca0bb78d830888424d6f214a9793879f13af1bada39520528f");
}

std::vector<int> random_mantissas(int64_t count, uint64_t seed, int limit) {
  std::vector<int> values;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = random_bits(seed, RandomStream::kSynthetic, 0, i);
    values.push_back(static_cast<int>(uniform_below(bits, 2 * limit + 1)) - limit);
  }
  return values;
}

// Attention by its definition in double, with P rounded as in integers; `grad` may be empty.
struct AttentionOfReals {
  int64_t positions, width, heads;
  bool causal;
  int64_t kv_heads = heads, window = 0;
  bool of_row = false;  // probabilities relative to their row
  std::vector<double> out = {}, grad_q = {}, grad_k = {}, grad_v = {};

  // log2(e) / sqrt(channels) in 20 bits.
  double exponent_scale() const {
    int exponent = 0;
    const double exact = std::numbers::log2e / std::sqrt(static_cast<double>(width / heads));
    const double fraction = std::frexp(exact, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(fraction, 20)), exponent - 20);
  }

  void run(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
           const std::vector<double>& grad) {
    const int64_t channels = width / heads;
    const double scale = 1 / std::sqrt(static_cast<double>(channels));
    const int64_t key_width = channels * kv_heads;
    for (auto* all : {&out, &grad_q}) all->assign(positions * width, 0);
    for (auto* all : {&grad_k, &grad_v}) all->assign(positions * key_width, 0);
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < positions; ++i) {
        // Powers of two, with exponents rounded as in integers.
        constexpr double kUnit = 65536;
        const auto meets = [&](int64_t j) {
          return (!causal || j <= i) && (window == 0 || std::abs(i - j) < window);
        };
        const int64_t keys = positions;
        const auto at = [&](int64_t row, int64_t c) { return row * width + h * channels + c; };
        const auto key_at = [&](int64_t row, int64_t c) {
          return row * key_width + h / (heads / kv_heads) * channels + c;
        };
        std::vector<double> p(keys), grad_p(keys);
        double largest = -INFINITY, sum = 0, row_term = 0;
        for (int64_t j = 0; j < keys; ++j) {
          if (!meets(j)) p[j] = -INFINITY;
          for (int64_t c = 0; c < channels; ++c) p[j] += q[at(i, c)] * k[key_at(j, c)];
          largest = std::max(largest, p[j]);
        }
        for (double& each : p) {
          sum += each =
              std::exp2(std::nearbyint((each - largest) * exponent_scale() * kUnit) / kUnit);
        }
        if (of_row) {
          sum = 0;
          for (double& each : p) sum += each = std::floor(127 * each + 0.5);
        }
        for (int64_t j = 0; j < keys; ++j) {
          if (!of_row) p[j] = std::min(127.0, std::nearbyint(128 * p[j] / sum)) / 128;
          const double factor = of_row ? p[j] / sum : p[j];
          if (of_row) p[j] = std::min(32767.0, std::floor(32768 * factor + 0.5)) / 32768;
          for (int64_t c = 0; c < channels; ++c) {
            out[at(i, c)] += factor * v[key_at(j, c)];
            grad_p[j] += grad[at(i, c)] * v[key_at(j, c)];
            grad_v[key_at(j, c)] += p[j] * grad[at(i, c)];
          }
          row_term += p[j] * grad_p[j];
        }
        for (int64_t j = 0; j < keys; ++j) {
          const double grad_score = p[j] * (grad_p[j] - row_term) * scale;
          for (int64_t c = 0; c < channels; ++c) {
            grad_q[at(i, c)] += grad_score * k[key_at(j, c)];
            grad_k[key_at(j, c)] += grad_score * q[at(i, c)];
          }
        }
      }
    }
  }
};

std::vector<double> reals_of(const Mantissas& block) {
  std::vector<double> values;
  for (size_t i = 0; i < block.values.size(); ++i) {
    const size_t channels = block.rows.empty() ? 1 : block.values.size() / block.rows.size();
    const int exponent = block.rows.empty() ? block.exponent : block.rows[i / channels];
    values.push_back(std::ldexp(block.values[i], exponent));
  }
  return values;
}

void expect_close(const Mantissas& found, const std::vector<double>& expected, const char* what) {
  double most = 0;
  for (const double each : expected) most = std::max(most, std::abs(each));
  const double unit = std::ldexp(1.0, found.exponent);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(std::ldexp(found.values[i], found.exponent), expected[i], 1.01 * unit + 2e-4 * most)
        << what << " " << i;
  }
}

constexpr const char* kProbabilities[] = {"fixed", "row"};

TEST(Attention, IsItsDefinitionForwardAndBackward) {
  constexpr int64_t kPositions = 13, kWidth = 12;
  for (const auto& [causal, of_row] : {std::pair{false, false}, {false, true}, {true, true}}) {
    for (const int64_t heads : {1, 2, 4}) {
      for (const int bits : {8, 12, 16}) {
        const int limit = (1 << (bits - 1)) - 1, exponent = 5 - bits;
        SingleOp op(ops::kAttention,
                    {{"heads", heads},
                     {"causal", causal ? 1 : 0},
                     {"probabilities", kProbabilities[of_row ? 1 : 0]}},
                    std::vector<Shape>(3, Shape{kPositions, kWidth}), 1, 2);
        std::vector<Mantissas> inputs;
        for (uint64_t i = 0; i < 3; ++i) {
          inputs.push_back({random_mantissas(kPositions * kWidth, i, limit), exponent, bits});
        }
        const Mantissas grad = {random_mantissas(kPositions * kWidth, 7, 32767), -20, 16};
        AttentionOfReals reals{kPositions, kWidth, heads, causal, heads, 0, of_row};
        reals.run(reals_of(inputs[0]), reals_of(inputs[1]), reals_of(inputs[2]), reals_of(grad));
        expect_close(op.forward(inputs, ExponentMode::kExact, 0, 8), reals.out, "output");
        const auto gradients = op.backward(inputs, grad, 16);
        expect_close(gradients[0], reals.grad_q, "queries");
        expect_close(gradients[1], reals.grad_k, "keys");
        expect_close(gradients[2], reals.grad_v, "values");
      }
    }
  }
}

TEST(Attention, OfSharedKeysAndWindowsIsItsDefinition) {
  constexpr int64_t kPositions = 41, kWidth = 24, kHeads = 6;
  for (const bool causal : {false, true}) {
    for (const int64_t kv_heads : {1, 2, 3, 6}) {
      for (const int64_t window : {0, 1, 5, 60}) {
        // A row of one key has a gradient of 0, but for roundings.
        const bool of_row = window != 1 && (kv_heads + window) % 3 == 0;
        const Shape keys{kPositions, kWidth / kHeads * kv_heads};
        SingleOp op(ops::kAttention,
                    {{"heads", kHeads},
                     {"kv_heads", kv_heads},
                     {"causal", causal ? 1 : 0},
                     {"window", window},
                     {"probabilities", kProbabilities[of_row ? 1 : 0]}},
                    {Shape{kPositions, kWidth}, keys, keys}, 1, 2);
        const std::vector<Mantissas> inputs = {
            {random_mantissas(kPositions * kWidth, 0, 127), -3},
            {random_mantissas(keys.count(), 1, 127), -3},
            {random_mantissas(keys.count(), 2, 127), -3}};
        const Mantissas grad = {random_mantissas(kPositions * kWidth, 7, 32767), -20, 16};
        AttentionOfReals reals{kPositions, kWidth, kHeads, causal, kv_heads, window, of_row};
        reals.run(reals_of(inputs[0]), reals_of(inputs[1]), reals_of(inputs[2]), reals_of(grad));
        expect_close(op.forward(inputs), reals.out, "output");
        const auto gradients = op.backward(inputs, grad, 16);
        expect_close(gradients[0], reals.grad_q, "queries");
        expect_close(gradients[1], reals.grad_k, "keys");
        expect_close(gradients[2], reals.grad_v, "values");
      }
    }
  }
}

// Rows have exponents of their own, up to 2^6 apart. A second sequence is smaller by 2^20: its
// gradients disappear beside the first one's, except the values', which no exponent changes.
TEST(Attention, OfRowsWithExponentsIsItsDefinitionBackward) {
  constexpr int64_t kPositions = 13, kWidth = 12, kSize = kPositions * kWidth;
  for (const auto& [causal, of_row] : {std::pair{false, false}, {true, false}, {true, true}}) {
    SingleOp op(ops::kAttention,
                {{"heads", 2},
                 {"causal", causal ? 1 : 0},
                 {"probabilities", kProbabilities[of_row ? 1 : 0]}},
                std::vector<Shape>(3, Shape{kPositions, kWidth}), 2, 2);
    std::vector<Mantissas> inputs;
    for (uint64_t i = 0; i < 3; ++i) {
      inputs.push_back({random_mantissas(2 * kSize, i, 127), -3});
      for (int64_t row = 0; row < 2 * kPositions; ++row) {
        const int below = row == 0 ? 0 : static_cast<int>((row * 5 + static_cast<int64_t>(i)) % 7);
        inputs.back().rows.push_back(-3 - below - (row < kPositions ? 0 : 20));
      }
    }
    const Mantissas grad = {random_mantissas(2 * kSize, 7, 32767), -20, 16};
    const auto sequence = [&](const Mantissas& all, int64_t n) {
      const std::vector<double> reals = reals_of(all);
      return std::vector<double>(reals.begin() + n * kSize, reals.begin() + (n + 1) * kSize);
    };
    std::vector<double> expected[3];
    for (int64_t n = 0; n < 2; ++n) {
      AttentionOfReals reals{kPositions, kWidth, 2, causal, 2, 0, of_row};
      reals.run(sequence(inputs[0], n), sequence(inputs[1], n), sequence(inputs[2], n),
                sequence(grad, n));
      expected[0].insert(expected[0].end(), reals.grad_q.begin(), reals.grad_q.end());
      expected[1].insert(expected[1].end(), reals.grad_k.begin(), reals.grad_k.end());
      expected[2].insert(expected[2].end(), reals.grad_v.begin(), reals.grad_v.end());
    }
    const auto gradients = op.backward(inputs, grad, 16);
    expect_close(gradients[0], expected[0], "queries");
    expect_close(gradients[1], expected[1], "keys");
    expect_close(gradients[2], expected[2], "values");
  }
}

// A position changes. Results before it stay as they were, at a fixed exponent.
TEST(Attention, LooksAtNothingThatFollows) {
  constexpr int64_t kPositions = 9, kWidth = 8, kChanged = 5;
  SingleOp op(ops::kAttention, {{"heads", 2}, {"causal", 1}},
              std::vector<Shape>(3, Shape{kPositions, kWidth}));
  std::vector<Mantissas> inputs;
  for (uint64_t i = 0; i < 3; ++i) {
    inputs.push_back({random_mantissas(kPositions * kWidth, i, 127), -5});
  }
  const Mantissas before = op.forward(inputs, ExponentMode::kFixed, -5);
  for (Mantissas& input : inputs) {
    for (int64_t i = kChanged * kWidth; i < kPositions * kWidth; ++i) input.values[i] ^= 0x15;
  }
  const Mantissas after = op.forward(inputs, ExponentMode::kFixed, -5);
  const auto end = before.values.begin() + kChanged * kWidth;
  EXPECT_TRUE(std::equal(before.values.begin(), end, after.values.begin()));
  EXPECT_NE(before.values, after.values);
}

// The content of padding changes no bit of the result, its exponent and all gradients.
TEST(Attention, DoesNotSeePadding) {
  constexpr int64_t kPositions = 9, kWidth = 8, kLength = 6;
  std::vector<Shape> shapes(3, Shape{kPositions, kWidth});
  shapes.push_back(Shape{});
  SingleOp op(ops::kAttention, {{"heads", 2}}, shapes);
  const Mantissas length = {{kLength}, 0, 32};
  std::vector<Mantissas> inputs, others;
  for (uint64_t i = 0; i < 3; ++i) {
    inputs.push_back({random_mantissas(kPositions * kWidth, i, 127), -5});
    others.push_back(inputs.back());
    for (int64_t k = kLength * kWidth; k < kPositions * kWidth; ++k) others.back().values[k] = 127;
  }
  inputs.push_back(length);
  others.push_back(length);
  Mantissas grad = {random_mantissas(kPositions * kWidth, 7, 32767), -20, 16}, other_grad = grad;
  for (int64_t k = kLength * kWidth; k < kPositions * kWidth; ++k) other_grad.values[k] = -32767;
  const Mantissas forward = op.forward(inputs);
  EXPECT_EQ(forward, op.forward(others));
  for (int64_t k = kLength * kWidth; k < kPositions * kWidth; ++k) {
    EXPECT_EQ(forward.values[k], 0);
  }
  EXPECT_EQ(op.backward(inputs, grad, 16), op.backward(others, other_grad, 16));
}

TEST(Attention, RefusesWhatItCannotDo) {
  const auto refused = [](const Attributes& attributes, std::vector<Shape> shapes) {
    const auto shape = output_shape(ops::kAttention, attributes, shapes);
    return shape.ok() ? std::string() : shape.error().message;
  };
  EXPECT_NE(refused({{"heads", 3}}, std::vector<Shape>(3, Shape{4, 8})), "");
  EXPECT_NE(refused({}, {Shape{4, 8}, Shape{5, 8}, Shape{5, 8}}), "");
  EXPECT_EQ(refused({{"cross", 1}}, {Shape{4, 8}, Shape{5, 8}, Shape{5, 8}}), "");
  EXPECT_NE(refused({{"cross", 1}, {"causal", 1}}, {Shape{4, 8}, Shape{5, 8}, Shape{5, 8}}), "");
  EXPECT_NE(refused({}, std::vector<Shape>(3, Shape{4, 512})), "");
  const auto shared = [](int64_t channels) {
    return std::vector<Shape>{Shape{4, 16}, Shape{4, channels}, Shape{4, channels}};
  };
  EXPECT_EQ(refused({{"heads", 4}, {"kv_heads", 2}}, shared(8)), "");
  EXPECT_EQ(refused({{"heads", 4}, {"kv_heads", 3}}, shared(12)),
            "wants kv_heads that divide 4 heads, not 3");
  EXPECT_EQ(refused({{"heads", 4}, {"kv_heads", 2}}, shared(16)),
            "wants keys and values of 8 channels for queries [4, 16], got [4, 16]");
  EXPECT_EQ(refused({{"heads", 2}, {"kv_heads", 1}},
                    {Shape{40000, 4}, Shape{40000, 2}, Shape{40000, 2}}),
            "wants at most 32768 positions");
  EXPECT_EQ(refused({{"cross", 1}, {"window", 2}}, {Shape{4, 8}, Shape{5, 8}, Shape{5, 8}}),
            "has a window within one sequence, not across two");
}

}  // namespace
}  // namespace mantissa::testing
